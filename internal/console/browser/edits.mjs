// Changing tasks, one and many, and what else a task's page does to it and to what hangs below it.
import assert from "node:assert/strict";
import { confirm, eventually, press, shows } from "./actions.mjs";
import { go } from "./browser.mjs";
import { Worker } from "./node.mjs";

export const edits = {
  async "a task is changed, and its context goes byte for byte"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "edited", delay: "3h", group_key: "a", meta: { customer: "7" }, context: { n: 1 } }] });
    await go(page, "/tasks/" + id);
    await press(page, "Change");
    const form = page.locator('dialog[open][aria-label="Change the task"]');
    const save = form.getByRole("button", { name: "Save", exact: true });
    assert.ok(await save.isDisabled(), "nothing was changed yet");
    await form.getByLabel("Priority", { exact: true }).fill("soon");
    await save.click();
    await shows(page, "body.priority");
    await form.getByLabel("Priority", { exact: true }).fill("5m");
    await form.getByLabel("Group key", { exact: true }).fill("");
    await form.locator("textarea").fill('{"n": 1e400,');
    assert.ok(await save.isDisabled(), "that is no JSON");
    await form.locator("textarea").fill('{"n": 1e400, "n": 2}');
    await save.click();
    await eventually("changed", async () => (await node.call("GET", "/v1/tasks/" + id)).priority === "5m0s");
    const raw = await (await fetch(node.url + "/v1/tasks/" + id)).text(), x = JSON.parse(raw);
    assert.ok(raw.includes('{"n": 1e400, "n": 2}'), raw.slice(0, 300));
    assert.deepEqual([x.group_key, x.meta, x.steps.at(-1).outcome], ["", { customer: "7" }, "edited"]);
    assert.deepEqual(x.steps.at(-1).changed.toSorted(), ["context", "group_key", "priority"], "only what was changed was sent");
    await shows(page, "changed");
  },
  async "all that match are counted first, then changed"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 900 }, () => ({ queue: "many-edits", delay: "3h" })) });
    await go(page, "/tasks?queue=many-edits&state=waiting");
    await press(page, "Change all that match");
    const form = page.locator('dialog[open][aria-label="Change all that match"]');
    await form.getByLabel("Delay", { exact: true }).fill("0s");
    await form.getByRole("textbox", { name: "Meta" }).fill('{"by":"console"}');
    await form.getByRole("button", { name: "Count first", exact: true }).click();
    await shows(page, "900 tasks match");
    await shows(page, '{"delay":"0s","meta":{"by":"console"}}');
    assert.equal((await node.call("GET", "/v1/queues/many-edits")).counts.waiting, 900, "counting changes nothing");
    await confirm(page, "Change all that match");
    await shows(page, "900 of 900 changed");
    assert.equal((await node.call("GET", "/v1/queues/many-edits")).counts.ready, 900);
    assert.equal((await node.call("GET", "/v1/tasks?queue=many-edits&meta.by=console&limit=1")).items.length, 1);
    await confirm(page, "Close", "Change all that match");
  },
  async "what tasks have is taken away, of one and of all that match"(page, node) {
    const begun = { queue: "stripped", delay: "3h", group_key: "a", meta: { customer: "7" }, max_attempts: 9, start_within: "5h", context: { n: 1 } };
    const { tasks: [{ id }, other] } = await node.call("POST", "/v1/tasks", { tasks: [begun, begun] });
    const fields = ["Start within", "Attempts per stage", "Group key", "Meta", "Context"];
    await go(page, "/tasks/" + id);
    await press(page, "Change");
    const form = page.locator('dialog[open][aria-label="Change the task"]');
    for (const name of fields) await form.getByLabel(name + ": none", { exact: true }).check();
    assert.ok(await form.locator("textarea").isDisabled(), "what is taken away is not written");
    await form.getByLabel("Context: none", { exact: true }).uncheck();
    await form.getByRole("button", { name: "Save", exact: true }).click();
    const has = async (id) => { const x = await node.call("GET", "/v1/tasks/" + id); return [x.group_key, x.meta, x.expires, x.max_attempts, x.context]; };
    const bare = ["", undefined, undefined];
    await eventually("taken away", async () => (await has(id))[0] === "");
    const [a, b] = [await has(id), await has(other.id)];
    assert.deepEqual(a.slice(0, 3).map((v) => v ?? undefined), bare);
    assert.notEqual(a[3], 9);
    assert.deepEqual(a[4], { n: 1 });
    assert.equal(b[0], "a", "the other one is left alone");
    await go(page, "/tasks?queue=stripped&state=waiting");
    await press(page, "Change all that match");
    const all = page.locator('dialog[open][aria-label="Change all that match"]');
    assert.ok(await all.getByRole("button", { name: "Count first", exact: true }).isDisabled(), "nothing is to be changed yet");
    for (const name of fields) await all.getByLabel(name + ": none", { exact: true }).check();
    await all.getByRole("button", { name: "Count first", exact: true }).click();
    await shows(page, "2 tasks match");
    await confirm(page, "Change all that match");
    await shows(page, "2 of 2 changed");
    await confirm(page, "Close", "Change all that match");
    const c = await has(other.id);
    assert.deepEqual([...c.slice(0, 3).map((v) => v ?? undefined), c[4]], [...bare, null]);
  },
  async "tasks that are blocked are changed, and go on waiting"(page, node) {
    const { tasks: [first, then] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "before", ref: "first" }, { queue: "behind", after: ["first"], context: { n: 1 } }] });
    const worker = new Worker(node, "parents", { queues: ["parents"] });
    await node.call("POST", "/v1/tasks", { tasks: [{ queue: "parents" }, { queue: "parents" }] });
    const held = await worker.hold(2);
    await worker.report(held.slice(0, 1), "next", { stage: "b", await: "children", spawn: [{ queue: "parents-below" }] });
    await worker.report(held.slice(1), "next", { stage: "b", await: { signal: "go" } });
    for (const id of [then.id, ...held.map((h) => h.id)]) {
      assert.equal((await node.call("GET", "/v1/tasks/" + id)).state, "blocked");
      await go(page, "/tasks/" + id);
      await press(page, "Change");
      const form = page.locator('dialog[open][aria-label="Change the task"]');
      await form.getByLabel("Priority", { exact: true }).fill("5m");
      await form.locator("textarea").fill('{"n": 2}');
      await form.getByRole("button", { name: "Save", exact: true }).click();
      await eventually("changed", async () => { const x = await node.call("GET", "/v1/tasks/" + id); return x.priority === "5m0s" && x.context.n === 2 && x.state === "blocked"; });
    }
    const does = new Worker(node, "first-worker", { queues: ["before"] });
    await does.report(await does.hold(1), "done");
    await eventually("it goes on, with what it was given", async () => { const x = await node.call("GET", "/v1/tasks/" + then.id); return x.state === "ready" && x.context.n === 2; });
    assert.equal((await node.call("GET", "/v1/tasks/" + first.id)).state, "done");
  },
  async "the history tells each outcome"(page, node) {
    await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: 4 }, () => ({ queue: "outcomes" })) });
    const worker = new Worker(node, "outcomes-worker", { queues: ["outcomes"] });
    const held = await worker.hold(4);
    await worker.report(held.slice(0, 1), "snooze", { delay: "1h" });
    await worker.report(held.slice(1, 2), "next", { stage: "b" });
    await worker.report(held.slice(2, 3), "release");
    await worker.report(held.slice(3), "done");
    await go(page, "/queues/outcomes");
    const panel = page.locator("section.panel", { has: page.getByRole("heading", { name: "Throughput", exact: true }) });
    await eventually("each is told", async () => { const text = await panel.innerText(); return ["started", "snoozed", "passed on", "released"].every((w) => text.includes(w)) && !text.includes("timed out"); });
    await panel.getByRole("button", { name: "Table", exact: true }).click();
    await eventually("the table has them", async () => (await panel.locator("thead").innerText()).toLowerCase().includes("snoozed"));
  },
  async "a task that died in its second stage begins anew in its first"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "twice", stage: "a", context: { n: 1 } }] });
    const worker = new Worker(node, "twice-worker", { queues: ["twice"] });
    await worker.report(await worker.hold(1), "next", { stage: "b", context: { n: 2 } });
    await worker.report(await worker.hold(1), "fail", { error: "no" });
    await go(page, "/tasks/" + id);
    await press(page, "Retry from the first stage");
    await confirm(page, "Retry from the first stage");
    await eventually("in its first stage", async () => { const x = await node.call("GET", "/v1/tasks/" + id); return x.state === "ready" && x.stage === "a" && x.context.n === 1; });
  },
  async "a task is cancelled with all that hangs below it"(page, node) {
    const { tasks: [{ id }] } = await node.call("POST", "/v1/tasks", { tasks: [{ queue: "family" }] });
    const worker = new Worker(node, "family-worker", { queues: ["family"] });
    await worker.report(await worker.hold(1), "next", { stage: "b", await: "children", spawn: [{ queue: "family-below" }, { queue: "family-below" }] });
    await go(page, "/tasks/" + id);
    await press(page, "Cancel with all below it");
    await confirm(page, "Cancel with all below it");
    await eventually("all are", async () => (await node.call("GET", "/v1/tasks/" + id)).state === "cancelled" && (await node.call("GET", "/v1/queues/family-below")).counts.cancelled === 2);
  },
};
