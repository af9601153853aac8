// How many workers it takes, and what one did.
import assert from "node:assert/strict";
import { eventually, press, shows } from "./actions.mjs";
import { go, open, settled } from "./browser.mjs";
import { Node, Worker } from "./node.mjs";

// foreseen waits until the node has gathered anew what workers queues need; it does so every ten seconds.
async function foreseen(node, what) {
  for (let i = 0; i < 250; i++) {
    const f = await node.call("GET", "/v1/forecast");
    if (what(f)) return f;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail("the forecast does not come");
}

const row = (page, panel, name) => page.locator("section.panel", { has: page.getByRole("heading", { name: panel, exact: true }) }).locator("tbody tr").filter({ hasText: name });

export const workers = {
  async "the forecast says what the command line says"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: [{ queue: "lonely" }] });
    const f = await foreseen(node, (x) => x.queues.some((q) => q.queue === "lonely" && q.wanted === 1));
    await go(page, "/forecast");
    const lonely = f.queues.find((q) => q.queue === "lonely");
    await eventually("the queue that nobody serves", async () => (await row(page, "Queues", "lonely").innerText()).includes("1 more now"));
    await shows(page, lonely.why);
    assert.match(await row(page, "Queues", "lonely").innerText(), /0, wanted 1/);
    const feeds = f.groups.find((g) => g.group === "feeds");
    assert.ok((await row(page, "Groups", "feeds").innerText()).includes(`${feeds.workers}, wanted ${feeds.wanted}`));
    await shows(page, feeds.why);
    await page.getByLabel("95 of 100 tasks wait less than").selectOption("30s");
    await eventually("the URL has it", async () => /wait=30s/.test(page.url()));
    await eventually("the node is asked for it", async () => page.calls.some((c) => c.includes("/v1/forecast?wait=30s")));
    await page.locator("#filter").fill("lonely");
    await eventually("only that queue is left", async () => (await page.locator("main tbody tr").count()) === 1);
    await go(page, "/queues/lonely");
    await shows(page, lonely.why);
    await go(page, "/jobs/feeds");
    await shows(page, feeds.why);
    await go(page, "/");
    const tile = page.locator("a.tile", { hasText: "Need more workers" });
    await eventually("the tile counts them, and names those that need the most", async () => {
      const { queues, groups } = await node.call("GET", "/v1/forecast");
      const short = [...queues, ...groups].filter((n) => n.wanted > n.workers);
      return short.length > 0 && (await tile.locator(".tile-value").innerText()) === String(short.length) && /feeds \d+ more now/.test(await tile.innerText());
    });
  },
  async "a shortage that is to come says when"(page) {
    const by = new Date(Date.now() + 40 * 60_000 + 20_000).toISOString();
    await page.route("**/v1/forecast*", (r) => r.fulfill({ json: {
      at: new Date().toISOString(), wait: "5s", queues: [], queues_left_out: 0, groups_left_out: 0, missing: ["node-<b>2</b>"],
      groups: [{ group: "feeds", workers: 8, wanted: 9, by, why: "its demand grows by 20 % an hour" }],
    } }));
    try {
      await go(page, "/forecast");
      await eventually("in words", async () => (await row(page, "Groups", "feeds").innerText()).includes("1 more within 40 min"));
      await shows(page, "node-<b>2</b>");
      await press(page, "中文", "body");
      await eventually("in Chinese", async () => (await page.locator("main").innerText()).includes("40 分内还需 1 个"));
      await press(page, "English", "body");
    } finally { await page.unroute("**/v1/forecast*"); }
  },
  async "what a worker did is on its page, as a plot and as a table"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 60 }, () => ({ queue: "history" })) });
    const worker = new Worker(node, "historian", { queues: ["history"], capacity: 60 });
    await worker.beat();
    await worker.report(await worker.hold(60), "done");
    worker.beats();
    await eventually("the node has counted", async () => (await node.call("GET", "/v1/stats?worker=historian")).items.some((b) => b.done === 60));
    await go(page, "/workers?open=historian");
    await eventually("three plots", async () => (await page.locator("dialog[open] figure.plot svg[role=img]").count()) === 3);
    await press(page, "Table", "dialog[open]");
    await eventually("the table has the minute", async () => /[1-9][\d.]*\/s/.test(await page.locator("dialog[open] .twin-table").innerText()));
    await press(page, "6h", "dialog[open]");
    await eventually("the URL has both", async () => /open=historian/.test(page.url()) && /span=6h/.test(page.url()));
    worker.stop();
    await page.keyboard.press("Escape");
    // Its past is kept when it is gone, and is all that is said of it.
    await node.call("DELETE", "/v1/workers/historian");
    await eventually("it is gone", async () => !(await node.call("GET", "/v1/workers?limit=1000")).items.some((w) => w.name === "historian" && w.active));
    await page.route("**/v1/workers**", async (route) => {
      const url = new URL(route.request().url());
      if (url.pathname.endsWith("/historian")) return route.fulfill({ status: 404, json: { detail: "worker historian: not found" } });
      const answer = await (await route.fetch()).json();
      return route.fulfill({ json: { ...answer, items: answer.items.filter((w) => w.name !== "historian") } });
    });
    try {
      await go(page, "/queues");
      await go(page, "/workers?open=historian");
      await shows(page, "It is not known any more.");
      await eventually("its past", async () => (await page.locator("dialog[open] figure.plot svg[role=img]").count()) === 3);
      await page.keyboard.press("Escape");
    } finally { await page.unroute("**/v1/workers**"); }
  },
  async "an alarm stands until its end is told, or what it is about is gone"(page, node) {
    await node.call("PUT", "/v1/groups/homeless", { selector: { nobody: "has this" }, policy: { warmup: "1s" } });
    await node.call("PUT", "/v1/groups/homeless/jobs", { jobs: [{ job: "a" }] });
    let told = false;
    for (let i = 0; !told && i < 600; i++) {
      told = (await node.call("GET", "/v1/events?kind=group.short&limit=1000")).items.some((e) => e.subject === "homeless");
      if (!told) await new Promise((done) => setTimeout(done, 100));
    }
    assert.ok(told, "the node tells");
    await go(page, "/queues");
    await go(page, "/");
    await eventually("the overview says so", async () => /Alarms that stand: \d/.test(await page.locator("main").innerText()));
    await page.locator("main").getByRole("link", { name: /Alarms that stand/ }).click();
    await settled(page);
    await eventually("it stands", async () => (await row(page, "Alarms that stand", "homeless").count()) === 1);
    await node.call("DELETE", "/v1/groups/homeless?force=true");
    await page.waitForTimeout(1100); // what was read within a second is not read again
    await go(page, "/queues");
    await go(page, "/events");
    await eventually("others may stand", async () => (await page.locator("main").innerText()).includes("Alarms that stand"));
    await eventually("this one does not", async () => (await row(page, "Alarms that stand", "homeless").count()) === 0);
  },
  async "a key is given to a node for a while"(page, node) {
    await go(page, "/nodes");
    const key = (await node.call("GET", "/v1/claims")).items[0].key;
    await page.locator("tbody tr").filter({ hasText: key }).getByRole("button", { name: "Give to …", exact: true }).click();
    const form = page.locator('dialog[open][aria-label="Give to …"]');
    await form.getByLabel("For", { exact: true }).fill("for ever");
    await form.getByRole("button", { name: "Give to …", exact: true }).click();
    await shows(page, "body.for");
    await form.getByLabel("For", { exact: true }).fill("5m");
    await form.getByRole("button", { name: "Give to …", exact: true }).click();
    await eventually("it is", async () => (await node.call("GET", "/v1/claims?assigned=true")).items.some((c) => c.key === key && c.assigned.node === "node-1"));
  },
};

// crowded has more queues than a forecast lists.
export async function crowded(browser) {
  const node = await Node.start();
  try {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 1000 }, (_, i) => ({ queue: "q-" + i })) });
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 200 }, (_, i) => ({ queue: "r-" + i })) });
    await foreseen(node, (f) => f.queues_left_out === 200);
    const page = await open(browser, node, { at: "/forecast", width: 360 });
    await settled(page);
    await eventually("a thousand rows", async () => (await page.locator("main tbody tr").count()) === 1000);
    await shows(page, "200 more are left out");
    const faults = page.faults;
    await page.context().close();
    return faults;
  } finally { await node.stop(); }
}
