// A real node for the tests: its own file, its own port, and calls of its API.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const binary = process.env.ROTA_BINARY;

function freePort() {
  return new Promise((done, fail) => {
    const s = createServer();
    s.on("error", fail);
    s.listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); });
  });
}

export class Node {
  // start runs a node; tokens are the lines of its token file.
  static async start({ tokens = "", name = "node-1" } = {}) {
    const n = new Node();
    n.folder = mkdtempSync(join(tmpdir(), "rota-console-"));
    const port = await freePort();
    n.url = `http://127.0.0.1:${port}`;
    const args = ["serve", "--name", name, "--listen", `127.0.0.1:${port}`, "--store", "sqlite:" + join(n.folder, "rota.db")];
    if (tokens) {
      writeFileSync(join(n.folder, "tokens"), tokens, { mode: 0o600 });
      args.push("--token-file", join(n.folder, "tokens"));
      n.token = tokens.split(/\s+/)[2];
    }
    n.said = "";
    n.process = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"], cwd: n.folder });
    n.process.stdout.on("data", (d) => { n.said += d; });
    n.process.stderr.on("data", (d) => { n.said += d; });
    for (let i = 0; i < 200; i++) {
      try { if ((await fetch(n.url + "/readyz")).ok) return n; } catch { /* not yet */ }
      await new Promise((done) => setTimeout(done, 100));
    }
    throw new Error("the node does not come up:\n" + n.said);
  }

  async call(method, path, body) {
    const headers = { "Content-Type": "application/json" };
    if (this.token) headers.Authorization = "Bearer " + this.token;
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(this.url + path, { method, headers, body: text });
    const said = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${said.slice(0, 500)}`);
    return said ? JSON.parse(said) : undefined;
  }

  async stop() {
    clearInterval(this.beating);
    for (const w of this.workers ?? []) w.stop();
    this.process.kill("SIGTERM");
    await new Promise((done) => this.process.on("exit", done));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

// Worker is one in this process, which speaks the API as any worker does.
export class Worker {
  constructor(node, name, { capacity = 8, queues = [], groups = [], labels = {}, zone = "" }) {
    Object.assign(this, { node, name, capacity, queues, groups, labels, zone, held: new Map(), jobs: [], version: undefined });
    (node.workers ??= []).push(this);
  }

  async beat() {
    const answer = await this.node.call("POST", `/v1/workers/${encodeURIComponent(this.name)}/beat`, {
      incarnation: "1", capacity: this.capacity, labels: this.labels, zone: this.zone, load: { cpu: 0.31, memory: 0.42 }, queues: this.queues, groups: this.groups,
      tasks: [...this.held].map(([id, h]) => ({ id, token: h.token, progress: h.progress ?? 0.4, note: h.note ?? "" })), jobs: this.jobs,
    });
    if (answer.jobs.reset) this.jobs = [];
    for (const j of answer.jobs.add) this.jobs.push({ group: j.group, job: j.job, replica: j.replica, token: j.token, state: "running" });
    for (const e of answer.jobs.end) this.jobs = this.jobs.filter((j) => !(j.group === e.group && j.job === e.job && j.replica === e.replica && j.token === e.token));
    for (const o of answer.tasks) if (o.action !== "continue") this.held.delete(o.id);
    return answer;
  }

  beats() {
    const loop = async () => { try { await this.beat(); } catch { /* the node is going */ } if (!this.stopped) this.timer = setTimeout(loop, 1000); };
    this.timer = setTimeout(loop, 1000);
    return this;
  }

  stop() { this.stopped = true; clearTimeout(this.timer); }

  async hold(limit, note) {
    const { tasks } = await this.node.call("POST", "/v1/tasks/hold", { worker: this.name, queues: this.queues, limit, wait: "5s" });
    for (const x of tasks) this.held.set(x.id, { token: x.token, note });
    return tasks;
  }

  async report(tasks, outcome, fields = {}) {
    const reports = tasks.map((x, i) => ({ id: x.id, token: x.token, outcome, ...(typeof fields === "function" ? fields(x, i) : fields) }));
    for (const x of tasks) this.held.delete(x.id);
    return this.node.call("POST", "/v1/tasks/report", { worker: this.name, reports });
  }
}
