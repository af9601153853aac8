// What a screen shows, and what it does, while something else goes on: nothing stale, nothing cut in silence.
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { confirm, eventually, press, shows } from "./actions.mjs";
import { go } from "./browser.mjs";
import { Worker } from "./node.mjs";

export const stale = {
  async "what was counted is what is acted on, also when the filter has changed meanwhile"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: ["chosen", "chosen", "spared", "spared", "spared"].map((queue) => ({ queue, delay: "3h" })) });
    const cancelled = async (queue) => (await node.call("GET", "/v1/queues/" + queue)).counts.cancelled;
    await go(page, "/tasks?queue=spared");
    await go(page, "/tasks?queue=chosen");
    await press(page, "Cancel all that match");
    const dialog = page.locator('dialog[open][aria-label="Cancel all that match"]');
    await shows(page, "2 tasks match");
    await page.goBack();
    await eventually("the list has another filter", async () => page.url().includes("queue=spared") && (await page.locator("main table.list tbody tr").count()) === 3);
    if (await dialog.count()) {
      assert.match(await dialog.innerText(), /queue:chosen/, "the dialogue says what it counted");
      await confirm(page, "Cancel all that match");
      await shows(page, "2 of 2 changed");
      await confirm(page, "Close", "Cancel all that match");
    }
    assert.deepEqual([await cancelled("chosen"), await cancelled("spared")], [2, 0]);
  },
  async "whoever leaves the screen stops what acts on all that match"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 3 }, () => ({ queue: "left-alone", delay: "3h" })) });
    let pages = 0;
    await page.route("**/v1/tasks/cancel", async (r) => {
      if (r.request().postDataJSON().dry_run) return r.fulfill({ json: { matched: 3, changed: 0 } });
      pages++;
      await new Promise((done) => setTimeout(done, 300));
      return r.fulfill({ json: { matched: 1, changed: 1, next: "more" } });
    });
    try {
      await go(page, "/tasks?queue=left-alone");
      await press(page, "Cancel all that match");
      await shows(page, "3 tasks match");
      await confirm(page, "Cancel all that match");
      await eventually("it acts", async () => pages > 0);
      await page.evaluate(() => { location.hash = "#/queues"; });
      await eventually("another screen", async () => (await page.locator("main h1").innerText()) === "Queues");
      await page.waitForTimeout(700);
      const then = pages;
      await page.waitForTimeout(1500);
      assert.equal(pages, then, "nobody sees it, and nobody could stop it");
    } finally { await page.unroute("**/v1/tasks/cancel"); }
  },
  async "a form sends what its reader changed, not what somebody else did while it was open"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "edited", delay: "3h", group_key: "a", meta: { customer: "7" }, context: { n: 1 } }] });
    await go(page, "/tasks/" + id);
    await press(page, "Change");
    const form = page.locator('dialog[open][aria-label="Change the task"]');
    await form.getByLabel("Group key", { exact: true }).fill("b");
    await node.call("PATCH", "/v1/tasks/" + id, { priority: "5m", meta: { customer: "8" }, context: { n: 2 } });
    await eventually("the screen has read it", async () => (await page.locator("main pre.json").innerText()).includes('"n": 2'));
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await eventually("saved", async () => (await node.call("GET", "/v1/tasks/" + id)).group_key === "b");
    const x = await node.call("GET", "/v1/tasks/" + id);
    assert.deepEqual([x.priority, x.meta, x.context], ["5m0s", { customer: "8" }, { n: 2 }]);
    assert.deepEqual(x.steps.at(-1).changed, ["group_key"]);
  },
  async "events are followed again after their stream broke, or the node was away"(page, node) {
    const happens = (owner) => node.call("PUT", "/v1/queues/followed", { owner });
    await happens("nobody");
    let broken = 0;
    await page.route("**/v1/events/stream*", (r) => [
      () => r.abort("connectionreset"), () => r.fulfill({ status: 422, json: { title: "Unprocessable Entity", detail: "query.cursor: is behind the last event of this store" } }), () => r.continue(),
    ][Math.min(2, broken++)]());
    try {
      await go(page, "/events?kind=audit.queue.*&q=followed");
      await eventually("it broke", async () => broken > 0);
      const rows = page.getByRole("region", { name: "Events", exact: true }).locator("tbody tr");
      const before = await rows.count();
      await happens("somebody");
      await eventually("what is new", async () => (await rows.count()) > before);
      await eventually("nothing is wrong any more", async () => (await page.locator("main .fault").count()) === 0 && broken > 2);
    } finally { await page.unroute("**/v1/events/stream*"); }
    await page.route("**/v1/events?*", (r) => r.abort("connectionreset"));
    await go(page, "/");
    await page.evaluate(() => { location.hash = "#/events?kind=audit.queue.*&q=followed"; });
    await shows(page, "The node does not answer.");
    await page.unroute("**/v1/events?*");
    await eventually("they are read", async () => (await page.getByRole("region", { name: "Events", exact: true }).locator("tbody tr").count()) > 0);
  },
  async "events that came while it paused are those of the filter, each once"(page, node) {
    await node.call("PUT", "/v1/queues/paused-by", {});
    await go(page, "/events?kind=audit.queue.put");
    await eventually("read", async () => (await page.locator("main").innerText()).includes("shown, newest first"));
    await page.waitForTimeout(500);
    await page.keyboard.press("p");
    await node.call("PUT", "/v1/queues/paused-by", { owner: "once" });
    await page.waitForTimeout(1500);
    await press(page, "node.*");
    await eventually("the other kind", async () => (await page.locator("main").innerText()).includes("node.online"));
    await page.keyboard.press("p");
    await page.waitForTimeout(500);
    assert.ok(!(await page.getByRole("region", { name: "Events", exact: true }).innerText()).includes("audit.queue.put"), "it was of another filter");
  },
  async "a log goes on behind a stream that a node ended, and says what it leaves out"(page, node) {
    const worker = new Worker(node, "logging", { queues: ["logged"] });
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "logged" }] });
    const held = await worker.hold(1);
    const write = (...texts) => node.call("POST", `/v1/tasks/${id}/logs`, texts.map((text) => JSON.stringify({ stream: "stdout", text })).join("\n"));
    await write("first line");
    let streams = 0;
    await page.route("**/logs?follow=true*", async (r) => {
      if (streams++ > 0) return r.continue();
      const { items, end } = await node.call("GET", `/v1/tasks/${id}/logs`);
      return r.fulfill({ contentType: "text/event-stream", body: `id: ${end}\ndata: ${JSON.stringify(items[0])}\n\n` });
    });
    try {
      await go(page, "/tasks/" + id);
      const log = page.locator("section.panel", { has: page.getByRole("heading", { name: "Log", exact: true }) });
      await eventually("the first line", async () => (await log.innerText()).includes("first line"));
      await page.waitForTimeout(300);
      assert.ok(!(await log.innerText()).includes("ended"), "the task still runs");
      await write("second line");
      await eventually("the second line", async () => (await log.innerText()).includes("second line"));
      assert.equal((await log.innerText()).split("first line").length, 2, "no line comes twice");
      for (let i = 0; i < 2; i++) await write(...Array.from({ length: 3000 }, (_, n) => "line " + (3000 * i + n)));
      await eventually("the last line", async () => (await log.innerText()).includes("line 5999"));
      assert.ok(!(await log.innerText()).includes("first line"));
      await eventually("what is left out", async () => (await log.innerText()).includes("1,002"));
      await worker.report(held, "fail", { error: "no" });
      // A stream ends a moment after its task, once more when nobody knew that the task is over; a busy machine takes its time.
      await log.getByText("ended", { exact: true }).waitFor({ timeout: 20_000 });
      await press(page, "Retry");
      await eventually("it is ready again", async () => (await node.call("GET", "/v1/tasks/" + id)).state === "ready");
      await worker.hold(1);
      await write("of the second attempt");
      await log.getByText("of the second attempt", { exact: true }).waitFor({ timeout: 20_000 });
    } finally { await page.unroute("**/logs?follow=true*"); worker.stop(); }
  },
  async "due times that are over are not shown as next ones"(page) {
    const times = (from) => Array.from({ length: 20 }, (_, i) => new Date(from + i * 2000).toISOString());
    await page.route("**/v1/schedules/preview", (r) => r.fulfill({ json: { times: times(Date.now() + 1500), notes: [], sentence: "every two seconds", chinese: "", zone: "UTC" } }));
    try {
      await go(page, "/schedules/cleanup");
      const list = page.locator("ol.times time");
      await eventually("next times", async () => (await list.count()) > 0);
      await page.waitForTimeout(6000);
      const shown = await list.evaluateAll((all) => all.map((e) => Date.parse(e.dateTime)));
      assert.ok(shown.length > 0 && shown.every((ms) => ms > Date.now() - 1500), "over by now: " + (Date.now() - shown[0]) + " ms");
    } finally { await page.unroute("**/v1/schedules/preview"); }
  },
  async "next times are within the span of a schedule"(page, node) {
    const hour = 36e5, at = (ms) => new Date(ms).toISOString(), begin = Date.now() + 48 * hour;
    await node.call("PUT", "/v1/schedules/spanned", { cron: "0 * * * *", zone: "UTC", queue: "reports", starts: at(begin), ends: at(begin + 3 * hour) });
    await go(page, "/schedules/spanned");
    const list = page.locator("ol.times time");
    await eventually("those three", async () => (await list.count()) === 3);
    const shown = await list.evaluateAll((all) => all.map((e) => Date.parse(e.dateTime)));
    assert.ok(shown.every((ms) => ms >= begin && ms <= begin + 3 * hour), String(shown));
    assert.equal(at(shown[0]), at(Date.parse((await node.call("GET", "/v1/schedules/spanned")).next)), "the first one is the next one");
    await node.call("DELETE", "/v1/schedules/spanned");
    await node.call("PUT", "/v1/schedules/spanned", { cron: "0 0 1 1 *", zone: "UTC", queue: "reports", ends: at(Date.now() + 1000) });
    await page.waitForTimeout(1500);
    await go(page, "/queues");
    await go(page, "/schedules/spanned");
    await shows(page, "No due time is to come.");
    await node.call("DELETE", "/v1/schedules/spanned");
  },
  async "a zone that the browser does not know, and times that are none, break no screen"(page, node) {
    const is = await node.call("GET", "/v1/schedules/nightly");
    await page.route("**/v1/schedules/nightly", (r) => r.fulfill({ json: { ...is, zone: "Mars/Olympus", next: "2026-13-45T00:00:00Z", last: "soon" } }));
    await page.route("**/v1/schedules/preview", (r) => r.fulfill({ json: { times: [1, 2, 3].map((h) => new Date(Date.now() + h * 36e5).toISOString()), notes: [{ at: "never", text: "a note" }], sentence: "sometimes", chinese: "", zone: "Mars/Olympus" } }));
    try {
      await go(page, "/schedules/nightly");
      await shows(page, "Mars/Olympus");
      await shows(page, "a note");
      await eventually("a table of hours and days", async () => (await page.locator("table.density").count()) === 1);
      await go(page, "/queues");
      await eventually("other screens are drawn", async () => (await page.locator("main h1").innerText()) === "Queues");
    } finally { await page.unroute("**/v1/schedules/nightly"); await page.unroute("**/v1/schedules/preview"); }
  },
  async "words that are no time and no span break no screen"(page) {
    for (const place of ["/?span=constructor", "/events?span=toString", "/tasks?since=1..2h", "/tasks?since=99999999999999h", "/queues"]) {
      await page.evaluate((at) => { location.hash = "#" + at; }, place);
      const title = { "/?": "Overview", "/e": "Events", "/t": "Tasks", "/q": "Queues" }[place.slice(0, 2)];
      await eventually(place, async () => (await page.locator("main h1").innerText()) === title);
      if (title !== "Tasks") continue;
      await page.locator("#filter").fill("since:1.2.3h queue:mail");
      await page.waitForTimeout(200);
      assert.equal(await page.locator("#filter").inputValue(), "since:1.2.3h queue:mail");
      await page.locator("#filter").fill("");
    }
  },
  async "a stream on which nothing comes any more is not live, and is begun anew"(page, node) {
    // What lies between, as a firewall does, forgets a connection: neither end is told.
    const target = new URL(node.url), open = new Set();
    const between = createServer((from) => {
      const on = connect(Number(target.port), target.hostname);
      open.add(on);
      for (const [a, b] of [[from, on], [on, from]]) a.pipe(b), a.on("error", () => b.destroy()), a.on("close", () => b.destroy());
    });
    await new Promise((done) => between.listen(0, "127.0.0.1", done));
    const other = await page.context().newPage();
    try {
      await other.goto(`http://127.0.0.1:${between.address().port}/`);
      const word = () => other.locator(".live-word").innerText();
      await eventually("it is live", async () => (await word()) === "Live");
      await other.evaluate(() => {
        window.words = [];
        new MutationObserver(() => window.words.push(document.querySelector(".live-word").textContent)).observe(document.querySelector(".live-word"), { characterData: true, subtree: true, childList: true });
      });
      for (const on of open) { on.unpipe(); on.pause(); }
      await node.call("POST", "/v1/tasks", { tasks: [{ queue: "behind-the-silence" }] });
      await other.waitForFunction(() => window.words.includes("No answer"), null, { timeout: 30_000 });
      await eventually("it is live again", async () => (await word()) === "Live" && (await other.locator("main").innerText()).includes("behind-the-silence"));
    } finally {
      await other.close();
      for (const on of open) on.destroy();
      between.close();
    }
  },
  async "all pages of a list are as they are now, also after more of it was read"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 150 }, () => ({ queue: "paged", delay: "3h" })) });
    await go(page, "/tasks?queue=paged");
    const rows = page.locator("main table.list").last().locator("tbody tr");
    await eventually("a page", async () => (await rows.count()) === 100);
    await press(page, "More");
    await eventually("both pages", async () => (await rows.count()) === 150);
    const ids = await rows.locator("td:first-child a").allInnerTexts();
    for (const id of [ids[3], ids[120]]) await node.call("POST", `/v1/tasks/${id}/cancel`);
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "paged", delay: "3h" }] });
    const row = (id) => rows.filter({ hasText: id });
    for (const i of [3, 120]) await eventually("row " + i + " is cancelled", async () => (await row(ids[i]).locator("td").nth(1).innerText()).toLowerCase().includes("cancelled"));
    await eventually("the new one", async () => (await row(id).count()) === 1);
    assert.equal(new Set(await rows.locator("td:first-child a").allInnerTexts()).size, 151, "each stands there once");
    // Another filter begins with its first page.
    await go(page, "/tasks?queue=paged&state=waiting");
    await eventually("its first page", async () => (await rows.count()) === 100);
  },
  async "counts are those of what a tab leads to, and of all"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: [{ queue: "counted", stage: "a", delay: "3h" }, { queue: "counted", stage: "b", delay: "3h" }, { queue: "counted", stage: "b", delay: "3h" }] });
    const tab = (word) => page.locator("nav.tabs").first().locator("a").filter({ hasText: word }).locator(".count");
    await go(page, "/tasks?queue=counted");
    await eventually("three wait", async () => (await tab("waiting").innerText()) === "3");
    await go(page, "/tasks?queue=counted&stage=a");
    await eventually("one of them is shown", async () => (await page.locator("main table.list tbody tr").count()) === 1);
    await eventually("how many of that stage is not known", async () => (await tab("waiting").innerText()) === "–");
    // A list of queues has a bound: beyond it the sums are of a part.
    await page.route("**/v1/queues?limit=1000", async (r) => r.fulfill({ json: { ...await (await r.fetch()).json(), next: "more" } }));
    await go(page, "/queues?q=no-such-queue");
    await eventually("the others may match", async () => (await page.locator("main").getByRole("button", { name: "More", exact: true }).count()) === 1);
    await go(page, "/tasks");
    await eventually("how many are done is not known", async () => (await tab("done").innerText()) === "–");
    assert.equal(await tab("All").innerText(), "–");
    await eventually("those that go on are", async () => /^\d/.test(await tab("waiting").innerText()));
    await page.unroute("**/v1/queues?limit=1000");
    await page.route("**/v1/workers?limit=1000", async (r) => r.fulfill({ json: { ...await (await r.fetch()).json(), next: "more" } }));
    await go(page, "/workers");
    await shows(page, "are listed; there are more.");
    await eventually("of the workers listed", async () => (await tab("All").innerText()).endsWith("+"));
    await page.unroute("**/v1/workers?limit=1000");
  },
  async "what turns a line around is shown as an escape also in dialogues, refusals, hints and tables of plots"(page, node) {
    const turned = "ab\u202edc", shown = "ab\\u202edc", unseen = () => page.evaluate(() => /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText + [...document.querySelectorAll("[title], [aria-label]")].map((e) => e.title + e.ariaLabel).join()));
    const at = encodeURIComponent(turned);
    await go(page, "/tasks?key=" + at);
    await press(page, "Cancel all that match");
    const dialog = page.locator("dialog[open]");
    await eventually("what the dialogue is about", async () => (await dialog.innerText()).includes("key:" + shown));
    assert.ok(!(await unseen()), "in a dialogue");
    await page.keyboard.press("Escape");
    await page.route("**/v1/queues/refused", (r) => r.fulfill({ status: 409, json: { title: "Conflict", detail: turned } }));
    await go(page, "/queues/refused");
    await eventually("what is refused", async () => (await page.getByRole("alert").first().innerText()).includes(shown));
    assert.ok(!(await unseen()), "in a refusal");
    await page.evaluate((place) => { location.hash = "#" + place; }, "/workers?open=" + at);
    await eventually("its name", async () => (await dialog.locator("h2").first().innerText()).includes(shown));
    assert.ok(!(await unseen()), "in a title");
    await page.keyboard.press("Escape");
    await page.route("**/v1/schedules/nightly/fires*", (r) => r.fulfill({ json: { items: [{ at: new Date().toISOString(), through: null, count: 1, origin: "time", outcome: "skipped", reason: turned, task: "", ended: "", node: "node-1", fired: null }], next: "" } }));
    await go(page, "/schedules/nightly");
    await eventually("a fire", async () => (await page.locator(".strip .tick").count()) === 1);
    assert.ok(!(await unseen()), "in a hint");
    await page.route("**/v1/events?limit=1000&kind=node.*", (r) => r.fulfill({ json: { items: [{ seq: 1, time: new Date().toISOString(), kind: "node.online", subject: "node-1", text: turned, fields: {} }], next: "" } }));
    await page.reload();
    await go(page, "/?span=6h");
    await page.locator(".plot").first().getByRole("button", { name: "Table" }).click();
    await eventually("the marks", async () => (await page.locator(".twin-table").innerText()).includes("node.online"));
    assert.ok(!(await unseen()), "in the table of a plot");
    for (const of of ["**/v1/queues/refused", "**/v1/schedules/nightly/fires*", "**/v1/events?limit=1000&kind=node.*"]) await page.unroute(of);
    await page.locator(".plot").first().getByRole("button", { name: "Plot" }).click();
  },
};
