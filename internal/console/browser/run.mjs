// The console in a real browser. run.mjs [--tasks 0,10,1000000] [--only WORD] [--screens FOLDER]
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { access, actions, eventually, shared, together } from "./actions.mjs";
import { edits } from "./edits.mjs";
import { crowded, workers } from "./workers.mjs";
import { faulty, go, launch, open, overflowing, settled } from "./browser.mjs";
import { flow, million, ten } from "./fill.mjs";
import { free, hostile } from "./hostile.mjs";
import { Node, Worker, binary } from "./node.mjs";
import { screens } from "./screens.mjs";
import { stale } from "./stale.mjs";
import { units } from "./units.mjs";

const { values: flags } = parseArgs({ options: {
  tasks: { type: "string", default: process.env.TASKS ?? "0,10" }, only: { type: "string", default: "" }, screens: { type: "string" },
} });
const axe = readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const widths = [360, 800, 1600], themes = ["light", "dark"];
let failed = 0, passed = 0;

async function check(name, f) {
  if (flags.only && !name.includes(flags.only)) return;
  const began = Date.now();
  let wrong;
  try { wrong = await f(); } catch (e) { wrong = [e.stack ?? String(e)]; }
  if (wrong?.length) { failed++; console.log("FAIL " + name + "\n  " + wrong.slice(0, 12).join("\n  ")); } else { passed++; console.log("ok   " + name + " (" + (Date.now() - began) + " ms)"); }
}

async function looks(browser, node, what, ids) {
  for (const theme of themes) {
    await check(`${what}: every screen at ${widths.join(", ")} pixels, ${theme}`, async () => {
      const wrong = [];
      for (const width of widths) {
        const page = await open(browser, node, { width, theme });
        for (const [name, place] of screens(ids)) {
          await go(page, place);
          wrong.push(...(await overflowing(page)).map((x) => `${name} at ${width}: ${x}`));
          if (width !== 800) wrong.push(...(await faulty(page, axe)).map((x) => `${name} at ${width}, ${theme}: ${x}`));
        }
        wrong.push(...page.faults);
        await page.context().close();
      }
      return wrong;
    });
  }
}

// paint reports how long the first paint takes: on a machine that is busy with other work that says little, so nothing fails.
async function paint(browser, node) {
  const times = [];
  for (let i = 0; i < 5; i++) {
    const page = await open(browser, node);
    await settled(page);
    times.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0));
    await page.context().close();
  }
  console.log("     first paint: " + times.map((x) => Math.round(x) + " ms").join(", "));
}

async function empty(browser) {
  const node = await Node.start();
  try {
    await looks(browser, node, "0 tasks");
    await check("0 tasks: empty screens say what to do next, and that works", async () => {
      const page = await open(browser, node);
      const commands = new Set();
      for (const place of ["/", "/tasks", "/queues", "/workers", "/jobs", "/forecast", "/schedules", "/notifiers"]) {
        await go(page, place);
        await eventually(place + " has a command", async () => (await page.locator(".command code").first().innerText()).startsWith("rota "));
        commands.add(await page.locator(".command code").first().innerText());
      }
      await go(page, "/tasks");
      writeFileSync(node.folder + "/url", "http://127.0.0.1:9/hook\n");
      for (const text of commands) {
        // A worker goes on until it is told to stop: it is given two seconds.
        const ran = spawnSync("timeout", ["-s", "INT", "2", "sh", "-c", "exec " + text], { cwd: node.folder, encoding: "utf8", env: { ...process.env, PATH: dirname(binary) + ":" + process.env.PATH } });
        if (ran.status !== 0 && ran.status !== 124) return [text + ": " + ran.stderr];
      }
      await eventually("the task was done", async () => (await node.call("GET", "/v1/queues/hello")).counts.done > 0);
      await go(page, "/queues");
      await eventually("the queue is shown", async () => (await page.locator("main").innerText()).includes("hello"));
      await go(page, "/events?kind=nothing.*");
      await page.locator(".command button").first().click();
      await eventually("copied", async () => (await page.evaluate(() => navigator.clipboard.readText())).startsWith("rota "));
      const faults = page.faults;
      await page.context().close();
      return faults;
    });
    await paint(browser, node);
  } finally { await node.stop(); }
}

async function some(browser) {
  const node = await Node.start();
  try {
    const ids = await ten(node);
    await looks(browser, node, "10 tasks", ids);
    await check("10 tasks: a log is followed", async () => {
      const page = await open(browser, node, { at: "/tasks/" + ids.running });
      await settled(page);
      await node.call("POST", `/v1/tasks/${ids.running}/logs`, { stream: "stdout", text: "frame <b>413</b>" });
      await eventually("the line", async () => (await page.locator(".log").innerText()).includes("frame <b>413</b>"));
      const faults = page.faults;
      await page.context().close();
      return faults;
    });
    const page = await open(browser, node);
    for (const [name, f] of Object.entries({ ...actions, ...workers, ...edits, ...stale })) {
      await check("action: " + name, async () => { page.faults.length = 0; await f(page, node); return page.faults; });
    }
    await page.context().close();
    await check("1,200 queues: the forecast shows those that need the most, and says what it leaves out", () => crowded(browser));
    await check("three tabs have one stream", () => shared(browser, node));
    await check("five tabs read what one does", () => together(browser, node));
    await check("behind a prefix", () => prefixed(browser, node));
    await check("a cut stream is begun anew", () => cut(browser, node));
  } finally { await node.stop(); }
}

// below puts a proxy before the node that serves it below a path, as many do.
async function below(node) {
  const proxy = createServer((ask, answer) => {
    if (!ask.url.startsWith("/ops/rota/")) { answer.writeHead(404).end(); return; }
    const target = new URL(node.url);
    const on = request({ host: target.hostname, port: target.port, path: ask.url.slice("/ops/rota".length), method: ask.method, headers: ask.headers }, (got) => { answer.writeHead(got.statusCode, got.headers); got.pipe(answer); });
    on.on("error", () => answer.destroy());
    ask.pipe(on);
    answer.on("close", () => on.destroy());
  });
  const listen = (port) => new Promise((done) => proxy.listen(port, "127.0.0.1", done));
  const close = () => new Promise((done) => { proxy.close(done); proxy.closeAllConnections(); });
  await listen(0);
  const { port } = proxy.address();
  return { url: `http://127.0.0.1:${port}/ops/rota`, close, again: () => listen(port) };
}

async function prefixed(browser, node) {
  const proxy = await below(node);
  try {
    const page = await open(browser, proxy);
    await settled(page);
    await go(page, "/queues");
    await eventually("the queues", async () => (await page.locator("main").innerText()).includes("mail"));
    await page.goto(proxy.url + "/docs");
    await eventually("the calls", async () => (await page.locator("main").innerText()).includes("/v1/tasks"));
    const faults = page.faults;
    await page.context().close();
    return faults;
  } finally { await proxy.close(); }
}

// cut ends the stream of the overview from below; the screen says so, and goes on by itself.
async function cut(browser, node) {
  const proxy = await below(node);
  const page = await open(browser, proxy);
  await settled(page);
  await eventually("it is live", async () => (await page.locator(".live-word").innerText()) === "Live");
  await proxy.close();
  await eventually("it says so", async () => (await page.locator(".live-word").innerText()) === "No answer");
  await proxy.again();
  await eventually("it goes on", async () => (await page.locator(".live-word").innerText()) === "Live");
  await node.call("POST", "/v1/tasks", { tasks: [{ queue: "after-the-cut" }] });
  await eventually("it shows what is new", async () => (await page.locator("main").innerText()).includes("after-the-cut"));
  const faults = page.faults;
  await page.context().close();
  await proxy.close();
  return faults;
}

// waits makes a task that waits for a signal to itself, and one that waits for one with a key.
async function waits(node) {
  const worker = new Worker(node, "approver", { queues: ["mail"] }), ids = {};
  for (const [name, wanted] of [["task", { signal: "approved" }], ["key", { signal: "approved", key: "order-7" }]]) {
    ids[name] = (await node.call("POST", "/v1/tasks", { tasks: [{ queue: "mail" }] })).tasks[0].id;
    await worker.report(await worker.hold(1), "next", { stage: "decide", await: wanted });
  }
  return ids;
}

async function guarded(browser) {
  const node = await Node.start({ tokens: "root admin root-token-root-token\neye viewer eye-token-eye-token\nops operator ops-token-ops-token\nweb submitter web-token-web-token queues=mail\n" });
  try {
    await node.call("PUT", "/v1/queues/mail", {});
    const ids = await waits(node);
    await check("a token is asked for, and decides what is there", () => access(browser, node, ids));
  } finally { await node.stop(); }
}

// evil puts every hostile text wherever the node takes it, and looks at all screens.
async function evil(browser) {
  const node = await Node.start({ name: "node-<b>".replace(/[<>]/g, "") });
  try {
    await node.call("PUT", "/v1/queues/evil", { title: free[0], owner: free[1], max_attempts: 1 });
    const worker = new Worker(node, "evil-worker", { capacity: 200, queues: ["evil"], labels: Object.fromEntries(free.slice(0, 12).map((s, i) => ["l" + i, s])) });
    await worker.beat();
    await node.call("POST", "/v1/tasks", { tasks: free.map((s) => ({ queue: "evil", stage: s, key: s + " ", group_key: s, context: { [s]: s, list: hostile } })) });
    let failedTasks = [];
    for (let all = []; all.length < free.length - 3;) {
      const got = await worker.hold(100);
      if (!got.length) break;
      all.push(...got);
      failedTasks.push(...got);
    }
    const kept = failedTasks.splice(0, 3);
    kept.forEach((x, i) => { worker.held.get(x.id).note = free[i]; });
    await node.call("POST", `/v1/tasks/${kept[0].id}/logs`, hostile.map((text) => JSON.stringify({ stream: "stderr", text: text.replace(/[\n\u2028\u2029]/g, " ") })).join("\n")).catch(async () => {
      for (const text of hostile) await node.call("POST", `/v1/tasks/${kept[0].id}/logs`, { stream: "stderr", text }).catch(() => {});
    });
    for (let i = 0; i < failedTasks.length; i += 50) await worker.report(failedTasks.slice(i, i + 50), "fail", (_, k) => ({ error: hostile[(i + k) % hostile.length] }));
    await node.call("PUT", "/v1/groups/evil", { title: free[2], owner: free[3] });
    await node.call("PUT", "/v1/schedules/evil", { cron: "0 * * * *", queue: "evil", stage: free[4], title: free[5], owner: undefined, context: hostile });
    worker.beats();
    await worker.beat();
    const places = [...screens({ dead: failedTasks[0].id, running: kept[0].id }).map(([name, p]) => [name, p.replace("/mail", "/evil").replace("feeds", "evil").replace("nightly", "evil").replace("mailer-1", "evil-worker")]), ...failedTasks.slice(1, 60).map((x) => ["task", "/tasks/" + x.id])];
    for (const width of [360, 1280]) {
      await check(`hostile texts are texts at ${width} pixels`, async () => {
        const page = await open(browser, node, { width });
        const wrong = [];
        for (const [name, place] of places) {
          await go(page, place);
          wrong.push(...(await overflowing(page)).map((x) => `${name} ${place}: ${x}`));
          const bad = await page.evaluate(() => ({ pwned: window.pwned, made: document.querySelectorAll("main script, main img, main iframe, main style, main link, main base, main meta, main form[action], main math, main plaintext, main body").length, rail: document.querySelector(".rail")?.getBoundingClientRect().height > 0 }));
          if (bad.pwned !== undefined || bad.made || !bad.rail) wrong.push(name + ": " + JSON.stringify(bad));
        }
        // The running task's context has them all: each is on the screen, as it is or by escapes.
        await go(page, "/tasks/" + kept[0].id);
        const text = await page.evaluate(() => document.querySelector("pre.json").textContent);
        const escaped = (s) => JSON.stringify(s).replace(/[\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu, (c) => { const hex = c.codePointAt(0).toString(16); return hex.length <= 4 ? "\\u" + hex.padStart(4, "0") : "\\u{" + hex + "}"; });
        for (const s of hostile) if (!text.includes(escaped(s))) wrong.push("not shown: " + escaped(s));
        const invisible = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u200b\ufeff\u2028\u2029]/.test(document.body.innerText));
        if (invisible) wrong.push("a character that turns the line around, or is unseen, stands on the screen");
        wrong.push(...page.faults);
        await page.context().close();
        return wrong;
      });
    }
  } finally { await node.stop(); }
}

async function many(browser, count) {
  const node = await Node.start();
  try {
    const ids = await ten(node);
    const began = Date.now();
    await million(node, count);
    console.log(`     ${count.toLocaleString("en")} tasks in ${Math.round((Date.now() - began) / 1000)} s`);
    await looks(browser, node, count.toLocaleString("en") + " tasks", ids);
    await check(count.toLocaleString("en") + " tasks: numbers are exact", async () => {
      const page = await open(browser, node, { at: "/tasks?queue=bulk-0" });
      let sum = 0;
      for (const q of (await node.call("GET", "/v1/queues?limit=1000")).items) if (q.name.startsWith("bulk-")) sum += q.counts.ready;
      if (sum !== count) return [`the node has ${sum} tasks`];
      const want = (await node.call("GET", "/v1/queues/bulk-0")).counts.ready.toLocaleString("en");
      await eventually(want, async () => (await page.locator("main").innerText()).includes(want));
      const faults = page.faults;
      await page.context().close();
      return faults;
    });
    await paint(browser, node);
  } finally { await node.stop(); }
}

async function pictures(browser, folder) {
  mkdirSync(folder, { recursive: true });
  const node = await Node.start();
  const ids = await ten(node);
  const stop = flow(node);
  await new Promise((done) => setTimeout(done, Number(process.env.WAIT ?? 150) * 1000));
  const [wide, lang] = [Number(process.env.WIDTH ?? 1280), process.env.LOCALE ?? "en"];
  for (const theme of themes) {
    const page = await open(browser, node, { width: wide, height: 860, theme, lang });
    await page.waitForTimeout(6000);
    for (const [name, place] of screens(ids)) {
      if (flags.only && !flags.only.split(",").includes(name)) continue;
      await go(page, place);
      await page.waitForTimeout(1200);
      // 128 colours are enough for a screen, and a third of the bytes.
      writeFileSync(`${folder}/${name}-${theme}.png`, spawnSync("pngquant", ["128", "-"], { input: await page.screenshot() }).stdout);
    }
    await page.context().close();
  }
  await stop();
  await node.stop();
}

const browser = await launch();
try {
  if (flags.screens) await pictures(browser, flags.screens);
  else {
    for (const [name, f] of Object.entries(units)) await check(name, f);
    for (const n of flags.tasks.split(",").map(Number)) {
      if (n === 0) await empty(browser);
      else if (n === 10) { await some(browser); await guarded(browser); await evil(browser); } else await many(browser, n);
    }
    console.log(`${passed} passed, ${failed} failed`);
  }
} finally { await browser.close(); }
process.exitCode = failed ? 1 : 0;
