// Actions do what they say: each is done on the screen, and looked at by the API.
import assert from "node:assert/strict";
import { go, open, settled } from "./browser.mjs";
import { free, hostile } from "./hostile.mjs";
import { Worker } from "./node.mjs";

export const press = (page, name, within = "main") => page.locator(within).getByRole("button", { name, exact: true }).first().click();
export const confirm = (page, name, title = name) => page.locator(`dialog[open][aria-label="${title}"]`).getByRole("button", { name, exact: true }).click();
export const eventually = async (what, f) => {
  let last;
  for (let i = 0; i < 60; i++) {
    try { if (await f()) return; } catch (e) { last = e; }
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(what + (last ? ": " + last.message : ""));
};
export const shows = (page, text) => eventually("the screen shows " + text, async () => (await page.locator("body").innerText()).includes(text));

export const actions = {
  async "a task is submitted, cancelled, retried and submitted once more"(page, node) {
    await go(page, "/tasks");
    await press(page, "Submit a task");
    const form = page.locator("dialog[open]");
    await form.getByLabel("Queue", { exact: true }).fill("by-console");
    await form.getByLabel("Context", { exact: true }).fill('{"n": 1e400, "big": 12345678901234567890, "n": 2}');
    await form.getByRole("button", { name: "Submit", exact: true }).click();
    await page.waitForURL(/#\/tasks\/\w+/);
    const id = page.url().split("/").at(-1);
    await shows(page, "12345678901234567890");
    await shows(page, "1e400");
    await press(page, "Cancel");
    await confirm(page, "Cancel");
    await eventually("cancelled", async () => (await node.call("GET", "/v1/tasks/" + id)).state === "cancelled");
    await press(page, "Retry");
    await eventually("ready again", async () => (await node.call("GET", "/v1/tasks/" + id)).state === "ready");
    await press(page, "Submit another like this");
    await page.locator("dialog[open]").getByRole("button", { name: "Submit", exact: true }).click();
    await eventually("another task", async () => (await node.call("GET", "/v1/tasks?queue=by-console")).items.length === 2);
    const raw = await (await fetch(node.url + "/v1/tasks/" + (await node.call("GET", "/v1/tasks?queue=by-console")).items[0].id)).text();
    assert.ok(raw.includes('"n": 1e400, "big": 12345678901234567890, "n": 2'), "the context went byte for byte: " + raw.slice(0, 300));
    await press(page, "Delete");
    await confirm(page, "Delete");
    await eventually("deleted", async () => (await node.call("GET", "/v1/tasks?queue=by-console")).items.length === 1);
    await page.waitForURL(/#\/tasks\?/);
  },
  async "a waiting task runs now"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "later", delay: "3h" }] });
    await go(page, "/tasks/" + id);
    await shows(page, "Not due yet.");
    await press(page, "Run now");
    await eventually("ready", async () => (await node.call("GET", "/v1/tasks/" + id)).state === "ready");
    await shows(page, "Nobody serves this queue.");
  },
  async "all that match are counted first, then cancelled, then retried"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 2500 }, () => ({ queue: "heap" })).slice(0, 1000) });
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 400 }, () => ({ queue: "heap" })) });
    await go(page, "/tasks?queue=heap");
    await press(page, "Cancel all that match");
    await shows(page, "1,400 tasks match");
    assert.equal((await node.call("GET", "/v1/queues/heap")).counts.ready, 1400, "counting changes nothing");
    await confirm(page, "Cancel all that match");
    await shows(page, "1,400 of 1,400 changed");
    assert.equal((await node.call("GET", "/v1/queues/heap")).counts.cancelled, 1400);
    await confirm(page, "Close", "Cancel all that match");
    await go(page, "/tasks?queue=heap&state=cancelled");
    await press(page, "Retry all that match");
    await shows(page, "1,400 tasks match");
    await confirm(page, "Retry all that match");
    await shows(page, "1,400 of 1,400 changed");
    await confirm(page, "Close", "Retry all that match");
    assert.equal((await node.call("GET", "/v1/queues/heap")).counts.ready, 1400);
  },
  async "the filter stands in the URL, and one that is unknown is named"(page) {
    await go(page, "/tasks");
    await page.keyboard.press("/");
    await page.keyboard.type('queue:heap stage:"a b"');
    await page.keyboard.press("Enter");
    await eventually("the URL has it", async () => /queue=heap&stage=a\+b/.test(page.url()));
    await page.locator("#filter").fill("nonsense:1");
    await shows(page, "There is no filter nonsense");
    await page.locator("#filter").fill("queue:heap state:ready");
    await page.keyboard.press("Enter");
    await eventually("100 rows", async () => (await page.locator("main table.list").last().locator("tbody tr").count()) === 100);
    await press(page, "More");
    await eventually("200 rows", async () => (await page.locator("main table.list").last().locator("tbody tr").count()) === 200);
  },
  async "contexts of each stage are shown, and what differs between two"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "staged", stage: "a", context: { kept: true, n: 1 } }] });
    const worker = new Worker(node, "stager", { queues: ["staged"] });
    await worker.report(await worker.hold(1), "next", { stage: "b", context: { kept: true, n: 2 } });
    const asked = [];
    page.on("request", (r) => { if (r.url().endsWith("/contexts")) asked.push(r.url()); });
    await go(page, "/tasks/" + id);
    await shows(page, '"n": 2');
    assert.equal(asked.length, 0, "nobody wants to see them yet");
    await press(page, "Each stage");
    const rows = page.getByRole("region", { name: "Each stage" }).locator("tbody tr");
    await eventually("two stages", async () => (await rows.count()) === 2);
    assert.match(await rows.nth(0).innerText(), /a[^]*submitted[^]*"n":1/);
    assert.match(await rows.nth(1).innerText(), /b[^]*next stage[^]*stager[^]*"n":2/);
    await node.call("PATCH", "/v1/tasks/" + id, { context: { kept: true, n: 3 } });
    await eventually("a third", async () => (await rows.count()) === 3);
    await press(page, "Show b · #1 edited");
    await page.getByLabel("Compare with …").selectOption({ label: "a · submitted" });
    const lines = () => page.locator("pre.diff").innerText();
    await eventually("both lines", async () => (await lines()).includes('"n": 1') && (await lines()).includes('"n": 3'));
    assert.equal(await page.locator("pre.diff .minus").count() + await page.locator("pre.diff .plus").count(), 2, "only what differs is marked");
    assert.equal(asked.length, 2, "they are read once, and again when there is another one");
  },
  async "hostile and large contexts of stages are texts, and compared as far as a screen takes"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "staged-large", stage: free[0], context: hostile }] });
    const worker = new Worker(node, "stager", { queues: ["staged-large"] });
    await worker.report(await worker.hold(1), "next", { stage: "large", context: Array.from({ length: 150_000 }, (_, i) => i) });
    await worker.report(await worker.hold(1), "next", { stage: "other", context: Array.from({ length: 150_000 }, (_, i) => -i) });
    await go(page, "/tasks/" + id);
    await press(page, "Each stage");
    const rows = page.getByRole("region", { name: "Each stage" }).locator("tbody tr");
    await eventually("three stages", async () => (await rows.count()) === 3);
    assert.match(await rows.nth(0).innerText(), /<script>/);
    await press(page, "Show large · #0 next stage");
    await page.getByLabel("Compare with …").selectOption({ label: "other · #1 next stage" });
    await shows(page, "only the first 200,000 characters are compared");
    await shows(page, "more are left out");
    assert.ok(await page.locator("pre.diff > span").count() <= 2000);
    await page.getByLabel("Compare with …").selectOption({ index: 3 });
    await shows(page, "window.pwned=1");
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  },
  async "a task without a context says so, in each stage"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "staged-none" }] });
    await go(page, "/tasks/" + id);
    await shows(page, "It carries nothing.");
    await press(page, "Each stage");
    const rows = page.getByRole("region", { name: "Each stage" }).locator("tbody tr");
    await eventually("one stage", async () => (await rows.count()) === 1);
    await shows(page, "It carries nothing.");
  },
  async "a span is chosen with the mouse"(page) {
    await go(page, "/tasks");
    const plot = page.locator("svg.brushes");
    await plot.waitFor();
    const box = await plot.boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 5 });
    await page.mouse.up();
    await eventually("the URL has it", async () => /since=20.*until=20/.test(page.url()));
    const [since, until] = ["since", "until"].map((k) => Date.parse(new URL(page.url().replace("#/tasks", "")).searchParams.get(k)));
    const share = (until - since) / 36e5;
    assert.ok(share > 0.25 && share < 0.4, "three tenths of an hour: " + share);
  },
  async "errors are grouped by likeness"(page) {
    await go(page, "/tasks?queue=mail");
    await press(page, "Group errors");
    await shows(page, "connect to smtp-…");
    await shows(page, "over the loaded pages");
    await page.getByRole("region", { name: "Errors grouped by likeness" }).locator("tbody a").first().click();
    await eventually("only those are shown", async () => /error=/.test(page.url()) && (await page.getByRole("alert").count()) === 0);
  },
  async "a queue pauses, goes on, and changes only what was changed"(page, node) {
    await node.call("PUT", "/v1/queues/heap", {});
    await go(page, "/queues/heap");
    await press(page, "Pause");
    await confirm(page, "Pause");
    await eventually("paused", async () => (await node.call("GET", "/v1/queues/heap")).paused);
    await shows(page, "Paused.");
    await press(page, "Resume");
    await eventually("resumed", async () => !(await node.call("GET", "/v1/queues/heap")).paused);
    await press(page, "Change");
    await node.call("PUT", "/v1/queues/heap", { owner: "somebody else" });
    await page.getByLabel("Longest attempt", { exact: true }).fill("7m");
    await page.getByLabel("Attempts per stage", { exact: true }).fill("9");
    await press(page, "Save");
    await eventually("saved", async () => (await node.call("GET", "/v1/queues/heap")).max_attempts === 9);
    const q = await node.call("GET", "/v1/queues/heap");
    assert.deepEqual([q.timeout, q.owner], ["7m0s", "somebody else"]);
    await press(page, "Change");
    await page.getByLabel("Longest attempt", { exact: true }).fill("soon");
    await press(page, "Save");
    await shows(page, "duration");
  },
  async "a queue's limits are set, shown and taken away"(page, node) {
    await node.call("PUT", "/v1/queues/heap", { max_running: 0, rate: 0 });
    await go(page, "/queues");
    await go(page, "/queues/heap");
    await press(page, "Change");
    await page.getByLabel("Run at a time", { exact: true }).fill("3");
    await page.getByLabel("Begin at most (count/time)", { exact: true }).fill("fast");
    await press(page, "Save");
    await shows(page, "is no rate");
    await page.getByLabel("Begin at most (count/time)", { exact: true }).fill("1/24h");
    await press(page, "Save");
    await shows(page, "0 of 3 run");
    await shows(page, "1/24h0m0s");
    await node.call("POST", "/v1/tasks", { tasks: [{ queue: "heap" }] });
    await shows(page, "They begin as fast as they may.");
    await shows(page, "limited");
    await press(page, "Change");
    await page.getByLabel("Run at a time", { exact: true }).fill("");
    await page.getByLabel("Begin at most (count/time)", { exact: true }).fill("");
    await press(page, "Save");
    await eventually("taken away", async () => { const q = await node.call("GET", "/v1/queues/heap"); return q.max_running === 0 && q.rate === "" && !q.limits; });
  },
  async "limits of each key are set, shown and taken away"(page, node) {
    await node.call("PUT", "/v1/queues/heap", { per_key: { rate: "9/1s", burst: 4 }, fair: false });
    await go(page, "/queues");
    await go(page, "/queues/heap");
    await shows(page, "9/1s");
    await press(page, "Change");
    await page.getByLabel("Run at a time, of each group key", { exact: true }).fill("100001");
    await page.getByLabel("Group keys take turns", { exact: true }).check();
    await press(page, "Save");
    await shows(page, "body.per_key.max_running");
    await page.getByLabel("Run at a time, of each group key", { exact: true }).fill("1");
    await page.getByLabel("A dead task stops its group key (one at a time)", { exact: true }).check();
    await press(page, "Save");
    await shows(page, "yes");
    const set = await node.call("GET", "/v1/queues/heap");
    assert.deepEqual([set.per_key, set.fair], [{ max_running: 1, rate: "9/1s", burst: 4, on_dead: "stop" }, true]);
    await press(page, "Change");
    await page.getByLabel("Run at a time, of each group key", { exact: true }).fill("");
    await page.getByLabel("Begin at most, of each group key (count/time)", { exact: true }).fill("");
    await page.getByLabel("Group keys take turns", { exact: true }).uncheck();
    await press(page, "Save");
    await eventually("taken away", async () => { const q = await node.call("GET", "/v1/queues/heap"); return q.per_key.max_running === 0 && q.per_key.rate === "" && q.per_key.burst === 0 && !q.fair; });
  },
  async "group keys are listed as text, paused, resumed and weighed"(page, node) {
    const own = ["customer-7", "a/b & c?d#e%2F", "..", "."], keys = [...own, ...free.filter((s) => !own.includes(s))].slice(0, 49);
    await node.call("PUT", "/v1/queues/keyed", { fair: true });
    await node.call("POST", "/v1/tasks", { tasks: keys.map((s) => ({ queue: "keyed", group_key: s, context: {} })) });
    await go(page, "/queues/keyed");
    const panel = page.locator("section.panel", { has: page.getByRole("heading", { name: "Group keys", exact: true }) });
    await eventually("all keys", async () => (await panel.locator("tbody tr").count()) === keys.length);
    const bad = await page.evaluate(() => ({ pwned: window.pwned, made: document.querySelectorAll("main script, main img, main iframe, main style, main link, main base, main meta").length }));
    assert.deepEqual(bad, { pwned: undefined, made: 0 });
    const shown = (await panel.locator("tbody").innerText()).normalize();
    for (const s of keys.filter((s) => !/\p{Cf}/u.test(s))) assert.ok(shown.includes(s.trim().normalize().replace(/\s+/g, " ")) || shown.includes(s.trim()), "the key is shown as it is: " + s);
    const row = (key) => panel.locator("tbody tr").filter({ has: page.locator("td:first-child bdi.u").filter({ hasText: new RegExp("^" + key.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&") + "$") }) });
    const button = (key, name) => row(key).getByRole("button", { name, exact: true });
    const rule = async (key) => (await node.call("GET", "/v1/queues/keyed/keys?limit=1000")).items.find((k) => k.key === key);
    // A browser folds the last two of these in a path, so keys stand in the query.
    for (const key of own) {
      await button(key, "Pause").click();
      await confirm(page, "Pause");
      await eventually(key + " is paused", async () => (await rule(key)).paused);
      await eventually("the row says so", async () => (await row(key).innerText()).toLowerCase().includes("paused"));
      await button(key, "Resume").click();
      await eventually(key + " is resumed", async () => !(await rule(key)).paused);
      await eventually("the row says that it is open", async () => (await row(key).locator("td").nth(4).innerText()).trim() === "open");
      await button(key, "Weigh").click();
      const form = page.locator('dialog[open][aria-label="Weigh"]');
      await form.getByLabel("Tasks of a turn").fill("1001");
      await form.getByRole("button", { name: "Save", exact: true }).click();
      await shows(page, "body.weight");
      await form.getByLabel("Tasks of a turn").fill("5");
      await form.getByRole("button", { name: "Save", exact: true }).click();
      await eventually(key + " weighs 5", async () => (await rule(key)).weight === 5);
      await eventually("the row says so", async () => (await row(key).locator("td").nth(3).innerText()) === "5");
    }
    // A pause that ends by itself says when.
    await node.call("POST", "/v1/queues/keyed/keys/customer-7/pause", { for: "2h" });
    await go(page, "/queues");
    await go(page, "/queues/keyed");
    await eventually("until when", async () => (await row("customer-7").locator("time").count()) === 1);
    // So does a key that waits for its rate.
    await node.call("PUT", "/v1/queues/keyed", { per_key: { rate: "1/24h" } });
    await go(page, "/queues");
    await go(page, "/queues/keyed");
    await eventually("what it waits for", async () => (await row("..").innerText()).includes("waits for its rate") && (await row("..").locator("time").count()) === 1);
    await node.call("PUT", "/v1/queues/keyed", { per_key: { rate: "" } });
    // More keys than are shown are told of.
    await node.call("POST", "/v1/tasks", { tasks: [1, 2, 3].map((n) => ({ queue: "keyed", group_key: "more-" + n, context: {} })) });
    await go(page, "/queues");
    await go(page, "/queues/keyed");
    await shows(page, "Those 50 with the most work.");
    // Weights say nothing where keys do not take turns.
    await node.call("PUT", "/v1/queues/keyed", { fair: false });
    await eventually("no key is to weigh", async () => (await panel.getByRole("button", { name: "Weigh" }).count()) === 0 && (await button("customer-7", "Resume").count()) === 1);
  },
  async "a task gets the signal that it waits for"(page, node) {
    const worker = new Worker(node, "approver", { queues: ["approvals"] });
    const wait = async (wanted) => {
      const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "approvals" }] });
      const held = await worker.hold(1);
      assert.deepEqual(held.map((x) => x.id), [id]);
      await worker.report(held, "next", { stage: "decide", await: wanted });
      await eventually("it waits", async () => (await node.call("GET", "/v1/tasks/" + id)).state === "blocked");
      return id;
    };
    const open = async (id) => { await go(page, "/tasks/" + id); await press(page, "Send the signal"); return page.locator('dialog[open][aria-label="Send the signal"]'); };
    const send = (form) => form.getByRole("button", { name: "Send the signal", exact: true });
    const woken = async (id) => { const [x] = await worker.hold(1); assert.equal(x.id, id); await worker.report([x], "done"); return x.signal; };

    const first = await wait({ signal: "approved", timeout: "24h", else: "remind" });
    let form = await open(first);
    await shows(page, "signal approved");
    await shows(page, "then stage remind");
    await form.getByLabel("Payload").fill('{"n": 1e400');
    assert.ok(await send(form).isDisabled(), "what is no JSON is not sent");
    await form.getByLabel("Payload").fill(' {"n": 1e400, "n": 12345678901234567890} ');
    await send(form).click();
    await shows(page, "Delivered: the wait is over.");
    await eventually("it goes on", async () => (await node.call("GET", "/v1/tasks/" + first)).state === "ready");
    await eventually("nothing is to send any more", async () => (await page.locator("main").getByRole("button", { name: "Send the signal" }).count()) === 0);
    const got = await (await fetch(node.url + "/v1/tasks/hold", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ worker: "approver", queues: ["approvals"], limit: 1, wait: "5s" }) })).text();
    assert.ok(got.includes('{"n": 1e400, "n": 12345678901234567890}'), "the payload went byte for byte: " + got.slice(0, 400));
    const [{ id, token }] = JSON.parse(got).tasks;
    await worker.report([{ id, token }], "done");

    // As text, once under a key; the task goes on meanwhile, and what is sent again counts once.
    const second = await wait({ signal: "approved", timeout: "1h" });
    form = await open(second);
    await shows(page, "then this stage all the same");
    await form.getByLabel("Payload").fill('yes "all" <b>of it</b>');
    await form.getByLabel("it is text").check();
    await form.getByLabel("Counts once under the key").fill("mail-77");
    await node.call("POST", `/v1/tasks/${second}/signal`, { name: "approved", key: "mail-77", payload: 1 });
    await send(form).click();
    await shows(page, "It had been sent before, and counts once.");
    assert.equal((await woken(second)).payload, 1);

    const third = await wait({ signal: "approved" });
    form = await open(third);
    await form.getByLabel("Payload").fill('yes "all" <b>of it</b>');
    await form.getByLabel("it is text").check();
    await node.call("POST", `/v1/tasks/${third}/signal`, { name: "approved" });
    await send(form).click();
    await shows(page, "Kept: nobody waits for it now.");
    await woken(third);
    form = await open(await wait({ signal: "approved" }));
    await form.getByLabel("Payload").fill("x".repeat(65 * 1024));
    await form.getByLabel("it is text").check();
    await send(form).click();
    await eventually("it is refused in the form", async () => (await form.getByRole("alert").innerText()).includes("payload"));
    await form.getByLabel("Payload").fill('yes "all" <b>of it</b>');
    await send(form).click();
    await shows(page, "Delivered: the wait is over.");
    assert.equal((await woken(page.url().split("/").at(-1))).payload, 'yes "all" <b>of it</b>');

    // A wait by name and key is ended by these, not by the task.
    const keyed = await wait({ signal: "paid", key: "order/7 <i>", timeout: "1h" });
    form = await open(keyed);
    await shows(page, "with key order/7 <i>");
    assert.equal(await form.getByLabel("Counts once under the key").count(), 0);
    await send(form).click();
    await shows(page, "Delivered: the wait is over.");
    await woken(keyed);
  },
  async "hooks are listed, filtered and deleted"(page, node) {
    await node.call("PUT", "/v1/hooks/short-lived", { scheme: "plain", secrets: ["It's a Secret to Everybody", "It's another Secret to Everybody"], signal: "paid", key: "/a/<b>x~1y" });
    await go(page, "/hooks");
    await shows(page, "short-lived");
    const rows = page.locator("main table.list tbody tr");
    await eventually("what becomes of them", async () => {
      const text = (await rows.allInnerTexts()).join("\n");
      return text.includes("signal paid · /a/<b>x~1y") && text.includes("mail · new");
    });
    assert.ok(!(await page.locator("body").innerText()).includes("Everybody"), "secrets are shown nowhere");
    assert.equal(await rows.filter({ hasText: "short-lived" }).locator("td").nth(3).innerText(), "2");
    await page.locator("#filter").fill("short");
    await eventually("one row", async () => (await rows.count()) === 1);
    await press(page, "Delete");
    await confirm(page, "Delete");
    await eventually("deleted", async () => !(await node.call("GET", "/v1/hooks?limit=500")).items.some((h) => h.name === "short-lived"));
    await page.locator("#filter").fill("");
    await eventually("the others are left", async () => (await rows.count()) === 2);
  },
  async "a worker drains and takes work again"(page, node) {
    await go(page, "/workers?open=mailer-1");
    await press(page, "Drain", "dialog[open]");
    await shows(page, "tasks are to end");
    await page.getByLabel("Units of capacity").fill("1");
    await press(page, "Reckon", "dialog[open]");
    await press(page, "Drain now", "dialog[open]");
    await eventually("sheds", async () => (await node.call("GET", "/v1/workers/mailer-1")).shed === 1);
    await shows(page, "1 units of its capacity");
    await press(page, "Undrain", "dialog[open]");
    await eventually("takes all again", async () => !(await node.call("GET", "/v1/workers/mailer-1")).shed);
    await press(page, "Drain", "dialog[open]");
    await press(page, "Drain now", "dialog[open]");
    await eventually("draining", async () => (await node.call("GET", "/v1/workers/mailer-1")).draining);
    await shows(page, "Draining:");
    await press(page, "Undrain", "dialog[open]");
    await eventually("undrained", async () => !(await node.call("GET", "/v1/workers/mailer-1")).draining);
    await page.keyboard.press("Escape");
    await eventually("closed", async () => (await page.locator("dialog[open]").count()) === 0);
  },
  async "what if says what would become of a group, and changes nothing"(page, node) {
    const before = JSON.stringify((await node.call("GET", "/v1/groups/feeds/assignments?limit=1000")).items.map((p) => [p.job, p.replica, p.worker]));
    await go(page, "/jobs/feeds");
    await press(page, "What if …");
    await page.locator("#whatif select").first().selectOption("remove");
    await page.getByLabel("Workers to add").fill("3");
    await press(page, "Reckon");
    await shows(page, "would start");
    const after = JSON.stringify((await node.call("GET", "/v1/groups/feeds/assignments?limit=1000")).items.map((p) => [p.job, p.replica, p.worker]));
    assert.equal(after, before);
    await page.locator("main").getByRole("button", { name: "feed-01" }).first().click();
    await shows(page, "Why feed-01 is where it is");
    await page.keyboard.press("Escape");
    await press(page, "Pause");
    await confirm(page, "Pause");
    await eventually("paused", async () => (await node.call("GET", "/v1/groups/feeds")).paused);
    await press(page, "Resume");
    await eventually("resumed", async () => !(await node.call("GET", "/v1/groups/feeds")).paused);
  },
  async "a schedule runs, pauses, is audited and backfilled"(page, node) {
    await go(page, "/schedules/cleanup");
    const fires = async () => (await node.call("GET", "/v1/schedules/cleanup/fires?limit=1000")).items.length;
    const n = await fires();
    await press(page, "Run now");
    await eventually("one more fire", async () => (await fires()) > n);
    await press(page, "Pause");
    await confirm(page, "Pause");
    await eventually("paused", async () => (await node.call("GET", "/v1/schedules/cleanup")).paused);
    await press(page, "Resume");
    await eventually("resumed", async () => !(await node.call("GET", "/v1/schedules/cleanup")).paused);
    await press(page, "Audit");
    await shows(page, "due times");
    await press(page, "Backfill");
    const form = page.locator("dialog[open]");
    const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
    await form.getByLabel("From", { exact: true }).fill(local(Date.now() - 36e5));
    const m = await fires();
    await form.getByRole("button", { name: "Count first" }).click();
    await shows(page, "tasks would be submitted");
    assert.equal(await fires(), m, "counting submits nothing");
    await form.getByRole("button", { name: "Backfill", exact: true }).click();
    await eventually("backfilled", async () => (await fires()) > m);
  },
  async "a refusal is shown with its text"(page) {
    await go(page, "/nodes");
    await press(page, "Drain");
    await shows(page, "No other node works.");
    await confirm(page, "Drain");
    await shows(page, "Refused.");
    await page.getByRole("status").getByRole("button", { name: "Close" }).click();
    await go(page, "/tasks/0000000000000zz");
    await page.getByRole("alert").first().waitFor();
  },
  async "a notifier is tested"(page) {
    await go(page, "/notifiers");
    await press(page, "Send a test");
    await shows(page, "Not delivered");
  },
  async "keys lead everywhere, and back"(page) {
    await go(page, "/");
    for (const [key, title] of [["t", "Tasks"], ["q", "Queues"], ["w", "Workers"], ["j", "Jobs"], ["n", "Nodes"], ["s", "Schedules"], ["e", "Events"], ["m", "Notifiers"], ["h", "Hooks"], ["a", "About"], ["o", "Overview"]]) {
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      await eventually(title, async () => (await page.locator("main h1").innerText()) === title);
    }
    await page.keyboard.press("?");
    await shows(page, "leave a field");
    await page.keyboard.press("Escape");
    await eventually("closed", async () => (await page.locator("dialog[open]").count()) === 0);
  },
  async "what happens is shown without a reload, and not while it pauses"(page, node) {
    await go(page, "/");
    const ready = () => page.locator(".tile", { hasText: "due later" }).locator(".tile-value").innerText();
    const n = Number((await ready()).replaceAll(",", ""));
    await node.call("POST", "/v1/tasks", { tasks: [{ queue: "heap" }, { queue: "heap" }] });
    await eventually("two more", async () => Number((await ready()).replaceAll(",", "")) === n + 2);
    await page.keyboard.press("p");
    await shows(page, "Paused");
    await node.call("POST", "/v1/tasks", { tasks: [{ queue: "heap" }] });
    await page.waitForTimeout(2500);
    assert.equal(Number((await ready()).replaceAll(",", "")), n + 2);
    await page.keyboard.press("p");
    await eventually("one more", async () => Number((await ready()).replaceAll(",", "")) === n + 3);
  },
  async "a plot has a table twin"(page) {
    await go(page, "/");
    await page.locator(".plot").first().getByRole("button", { name: "Table" }).click();
    await eventually("rows", async () => (await page.locator(".twin-table tbody tr").count()) > 50);
    await page.locator(".plot").first().getByRole("button", { name: "Plot" }).click();
  },
  async "language and theme are kept"(page) {
    await page.getByRole("button", { name: "中文" }).click();
    await shows(page, "概览");
    await page.getByRole("button", { name: "自动" }).click();
    await page.getByRole("button", { name: "浅色" }).click();
    await page.reload();
    await settled(page);
    await shows(page, "深色");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme + document.documentElement.lang), "darkzh-CN");
    await page.getByRole("button", { name: "English" }).click();
    await page.getByRole("button", { name: "Dark" }).click();
  },
};

// shared: all tabs of a browser have one stream, and go on when the tab that has it closes.
// together: what the overview reads beside the stream is read by one tab for all, also when that one closes.
export async function together(browser, node) {
  const first = await open(browser, node);
  const tabs = [first];
  for (let i = 0; i < 4; i++) tabs.push(await open(browser, node, { context: first.context() }));
  for (const tab of tabs) await settled(tab);
  // Each once in so many seconds; a reading that began before may end in the span.
  const rests = { "/v1/stats": 6, "/v1/forecast": 10, "/v1/events?kind=node.unreachable": 15 };
  const readings = (of, path) => of.reduce((n, tab) => n + tab.calls.filter((c) => c.startsWith("GET " + path)).length, 0);
  // How often at most; what takes a busy node long is read less often, so how seldom is not said.
  const watched = async (of, seconds) => {
    const before = Object.keys(rests).map((path) => readings(of, path));
    await of[0].waitForTimeout(seconds * 1000);
    Object.entries(rests).forEach(([path, rest], i) => {
      const n = readings(of, path) - before[i];
      assert.ok(n <= seconds / rest + 1, `${of.length} tabs read ${path} ${n} times in ${seconds} s`);
    });
  };
  await watched(tabs, 20);
  await first.close();
  await tabs[1].close();
  const others = tabs.slice(2), by = (path) => readings(others, path), before = Object.keys(rests).map(by);
  await watched(others, 17);
  for (let i = 0; i < 10 && Object.keys(rests).some((path, k) => by(path) === before[k]); i++) await watched(others, 7);
  for (const [k, path] of Object.keys(rests).entries()) assert.ok(by(path) > before[k], "the tabs that are left read " + path);
  await first.context().close();
  return tabs.flatMap((tab) => tab.faults);
}

export async function shared(browser, node) {
  const first = await open(browser, node);
  await settled(first);
  const second = await open(browser, node, { context: first.context() });
  const third = await open(browser, node, { context: first.context() });
  await settled(third);
  const streams = (page) => page.calls.filter((c) => c.includes("/v1/overview/stream")).length;
  assert.equal(streams(first) + streams(second) + streams(third), 1, "one stream for three tabs");
  await first.close();
  await eventually("another tab leads", async () => streams(second) + streams(third) === 1);
  await node.call("POST", "/v1/tasks", { tasks: [{ queue: "shared" }] });
  await shows(third, "shared");
  await shows(second, "shared");
  await second.context().close();
  return [...first.faults, ...second.faults, ...third.faults];
}

// access: a token is asked for, kept for the tab only unless told, and shows only what it may do.
export async function access(browser, node, ids) {
  const page = await open(browser, node);
  await shows(page, "This node wants an access token.");
  const give = async (token, stay) => {
    await page.getByLabel("Access token").fill(token);
    if (stay) await page.getByLabel("keep it in this browser").check();
    await page.getByRole("button", { name: "Continue" }).click();
  };
  await give("wrong-token-wrong");
  await shows(page, "does not know that token");
  await give("eye-token-eye-token");
  await settled(page);
  await go(page, "/about");
  await shows(page, "viewer");
  await go(page, "/queues/mail");
  for (const name of ["Pause", "Submit a task", "Delete", "Change"]) assert.equal(await page.locator("main").getByRole("button", { name, exact: true }).count(), 0, name + " is not there for a viewer");
  await go(page, "/tasks/" + ids.task);
  await shows(page, "signal approved");
  assert.equal(await page.locator("main").getByRole("button", { name: "Send the signal" }).count(), 0, "a viewer sends no signal");
  await go(page, "/queues/mail");
  assert.equal(await page.evaluate(() => localStorage.getItem("rota-token") ?? "" + sessionStorage.getItem("rota-token")), "eye-token-eye-token");
  assert.equal(await page.evaluate(() => localStorage.getItem("rota-token")), null, "it is not kept for longer than the tab");
  // A tab with another token has a stream of its own: it may see something else.
  const other = await open(browser, node, { context: page.context() });
  await other.getByLabel("Access token").fill("root-token-root-token");
  await other.getByRole("button", { name: "Continue" }).click();
  await settled(other);
  const streams = (p) => p.calls.filter((c) => c.includes("/v1/overview/stream")).length;
  await eventually("a stream for each token", async () => streams(other) >= 1 && (await other.locator(".live-word").innerText()) === "Live");
  await other.close();
  // Whoever may submit may signal a task; by name and key only without a scope, since that may go to any queue.
  const scoped = await open(browser, node, { context: await browser.newContext() });
  await scoped.getByLabel("Access token").fill("web-token-web-token");
  await scoped.getByRole("button", { name: "Continue" }).click();
  await settled(scoped);
  for (const [id, buttons] of [[ids.task, 1], [ids.key, 0]]) {
    await go(scoped, "/tasks/" + id);
    await shows(scoped, "signal approved");
    await eventually("buttons that send a signal: " + buttons, async () => (await scoped.locator("main").getByRole("button", { name: "Send the signal" }).count()) === buttons);
  }
  page.faults.push(...scoped.faults);
  await scoped.context().close();
  await page.getByRole("button", { name: "Forget token" }).click();
  await eventually("nothing is shown any more", async () => (await page.locator(".node-name").innerText()) === "");
  await give("ops-token-ops-token", true);
  await eventually("an operator may pause", async () => (await page.locator("main").getByRole("button", { name: "Pause", exact: true }).count()) === 1);
  assert.equal(await page.locator("main").getByRole("button", { name: "Delete", exact: true }).count(), 0, "an operator may not delete a queue");
  assert.equal(await page.evaluate(() => localStorage.getItem("rota-token")), "ops-token-ops-token");
  const faults = page.faults;
  await page.context().close();
  return faults;
}
