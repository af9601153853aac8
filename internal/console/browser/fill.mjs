// What the screens are shown with.
import { Worker } from "./node.mjs";

const errors = [
  "connect to smtp-7.example:587: i/o timeout after 30s", "connect to smtp-3.example:587: i/o timeout after 30s",
  "550 5.1.1 mailbox of user 84113 is unknown", "render template: nil pointer at line 41",
];

// ten makes one of everything: tasks in every state, workers, a group, schedules, events.
export async function ten(node) {
  await node.call("PUT", "/v1/queues/mail", { title: "Outgoing mail", owner: "post@example.org", max_attempts: 2, retry: { initial: "50ms", max: "50ms", jitter: 0 } });
  await node.call("PUT", "/v1/queues/thumbnails", { timeout: "2m" });
  await node.call("PUT", "/v1/queues/reports", { max_running: 4, rate: "1/24h", per_key: { max_running: 1, rate: "5/1s", burst: 20 }, fair: true });
  const submit = async (tasks) => (await node.call("POST", "/v1/tasks", { tasks })).tasks.map((x) => x.id);
  const w1 = new Worker(node, "mailer-1", { capacity: 16, queues: ["mail"], labels: { disk: "ssd" }, zone: "eu-1" });
  const w2 = new Worker(node, "mailer-2", { capacity: 8, queues: ["mail", "thumbnails"], zone: "eu-2" });
  const jobs = ["a", "b", "c", "d"].map((x, i) => new Worker(node, "feeds-" + x, { capacity: [12, 8, 8, 4][i], groups: ["feeds"], zone: i % 2 ? "eu-2" : "eu-1" }));
  for (const w of [w1, w2, ...jobs]) await w.beat();
  await submit([1, 2, 3, 4].map((n) => ({ queue: "mail", stage: "render", context: { to: `user${n}@example.org`, template: "welcome", user: { id: 84113 + n, big: 12345678901234567890n.toString() } } })));
  let held = await w1.hold(4);
  await w1.report(held.slice(0, 2), "next", { stage: "send", context: { to: "user1@example.org", subject: "Welcome", body: "<p>Hello</p>" } });
  await w1.report(held.slice(2), "fail", (_, i) => ({ error: errors[i] }));
  held = await w1.hold(2);
  await node.call("POST", `/v1/tasks/${held[0].id}/logs`, { stream: "stdout", text: "connected to smtp-7.example" });
  await node.call("POST", `/v1/tasks/${held[0].id}/logs`, { stream: "stderr", text: "warning: certificate ends in 6 days" });
  await w1.report(held, "done", { result: { message: "250 OK", bytes: 48213 } });
  const done = held[0].id;
  await submit([{ queue: "mail", stage: "send", context: { to: "retry@example.org" } }]);
  held = await w1.hold(1);
  await w1.report(held, "retry", { error: errors[0], delay: "10ms" });
  const again = await w1.hold(1);
  await w1.report(again, "retry", { error: errors[1] });
  const dead = again[0].id;
  const [blocked] = await submit([{ queue: "thumbnails", stage: "ask", context: { image: "photo-0.jpg" } }]);
  await w2.report(await w2.hold(1), "next", { stage: "publish", await: { signal: "approved", key: "photo-0", timeout: "24h", else: "remind" } });
  const [running] = await submit([{ queue: "thumbnails", stage: "resize", context: { image: "photo-1.jpg" } }]);
  await w2.hold(1, "frame 412 of 960");
  const [waiting] = await submit([{ queue: "reports", delay: "2h", context: { month: "2026-11" } }]);
  await submit([{ queue: "reports", context: { month: "2026-10" }, key: "report-2026-10" }]);
  const [gone] = await submit([{ queue: "reports", context: {}, delay: "1h" }]);
  await node.call("POST", `/v1/tasks/${gone}/cancel`);
  await node.call("PUT", "/v1/groups/feeds", { replicas: 2, title: "News feeds", spread: "zone" });
  await node.call("PUT", "/v1/groups/feeds/jobs", { jobs: Array.from({ length: 14 }, (_, i) => ({ job: "feed-" + String(i + 1).padStart(2, "0"), load: 1 + (i % 3) / 2, spec: { url: `rss://${i}` } })) });
  await node.call("PUT", "/v1/schedules/nightly", { cron: "30 2 * * *", zone: "Europe/Berlin", queue: "reports", title: "Nightly report" });
  await node.call("PUT", "/v1/schedules/cleanup", { cron: "*/5 * * * *", queue: "reports" });
  await node.call("PUT", "/v1/schedules/digest", { after: ["nightly", "cleanup"], after_mode: "all", queue: "mail" });
  await node.call("PUT", "/v1/schedules/by-hand", { manual: true, queue: "reports" });
  await node.call("POST", "/v1/schedules/cleanup/run");
  await node.call("PUT", "/v1/hooks/builds", { scheme: "github", secrets: ["It's a Secret to Everybody"], queue: "mail", stage: "new" });
  await node.call("PUT", "/v1/hooks/paid", { scheme: "stripe", secrets: ["It's a Secret to Everybody"], signal: "paid", key: "/data/order" });
  await node.call("PUT", "/v1/notifiers/ops", { kind: "webhook", url: "http://127.0.0.1:9/hook", on: ["queue.unserved", "node.offline"] });
  for (const w of [w1, w2, ...jobs]) w.beats();
  return { done, dead, running, waiting, blocked };
}

// million submits tasks in batches of a thousand, eight at a time.
export async function million(node, count) {
  let left = count;
  const one = async () => {
    while (left > 0) {
      const n = Math.min(1000, left);
      left -= n;
      await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: n }, (_, i) => ({ queue: "bulk-" + (i % 3), stage: i % 2 ? "load" : "parse", context: { i } })) });
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
}

// flow keeps a little work going, so that rates and history have something to show.
export function flow(node, perRound = 12) {
  let on = true;
  const workers = ["press-1", "press-2", "press-3"].map((name, i) => new Worker(node, name, { capacity: [12, 24, 6][i], queues: ["thumbnails"], zone: "eu-" + (1 + i % 2) }).beats());
  const run = async () => {
    for (let n = 0; on; n++) {
      try {
        await node.call("POST", "/v1/tasks", { tasks: Array.from({ length: perRound + Math.round(8 * Math.sin(n / 5)) }, () => ({ queue: "thumbnails", stage: "resize", context: { image: "photo.jpg" } })) });
        for (const w of workers) {
          const { tasks } = await node.call("POST", "/v1/tasks/hold", { worker: w.name, queues: w.queues, limit: 8, wait: "0s" });
          for (const x of tasks) w.held.set(x.id, { token: x.token });
          const old = [...w.held].slice(0, 7).map(([id, h]) => ({ id, token: h.token }));
          await w.report(old.slice(0, 6), "done"); await w.report(old.slice(6), n % 6 ? "done" : "fail", n % 6 ? {} : { error: errors[n % errors.length] });
        }
      } catch { /* the node is going */ }
      await new Promise((done) => setTimeout(done, 400));
    }
  };
  const ended = run();
  return async () => { on = false; await ended; };
}
