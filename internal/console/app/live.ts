// The overview, live. One tab of this browser holds the stream and tells the others: a Web Lock says which, a
// broadcast channel carries what came. Where a page may have no locks (plain http from elsewhere) each tab has a
// stream of its own.
import { effect, signal } from "@preact/signals";
import { asking, events, get, Problem, tokens, base } from "./api";
import { merged } from "./merge";
import { paused } from "./prefs";
import { nodeTime } from "./time";

export type Totals = Record<"submitted" | "started" | "done" | "retried" | "dead" | "cancelled" | "lost", number> & { since: string };
export type QueueLine = {
  queue: string; ready: number; waiting: number; running: number; oldest_ready?: string | null; paused: boolean;
  submitted: number; done: number; dead: number;
};
export type Overview = {
  at: string; age: string; node: string; version: string; oldest_ready?: { queue: string; age: string } | null;
  ready: number; waiting: number; running: number; capacity: number; dead_hour: number; totals: Totals;
  nodes: { name: string; state: string; score: number }[]; missing: string[];
  workers: { active: number; draining: number; silent: number };
  fleet: { worker: string; node: string; state: string; capacity: number; running: number; jobs: number }[]; fleet_left_out: number;
  schedules: { total: number; late: number; paused: number }; jobs: { wanted: number; running: number; starting: number; failed: number; pending: number };
  budget?: number | null; budget_workers?: number | null; queues: QueueLine[]; queues_left_out: number;
};

// Sample is what rates are the differences of.
export type Sample = { at: number; totals: Totals; queues: Map<string, QueueLine> };

export type Link = "connecting" | "live" | "broken" | "missing";

export const overview = signal<Overview | null>(null);
export const link = signal<Link>("connecting");
export const history = signal<Sample[]>([]);
export const trouble = signal("");
const keptSamples = 180;

function took(o: Overview) {
  if (paused.peek()) { late = o; return; }
  late = null;
  nodeTime(o.at);
  overview.value = o;
  const at = Date.parse(o.at), last = history.peek().at(-1);
  if (last && at - last.at < 500) return;
  const next = { at, totals: o.totals, queues: new Map(o.queues.map((q) => [q.queue, q])) };
  // Another node may count since another time: differences begin anew.
  const anew = last && (o.totals.since !== last.totals.since || o.totals.submitted < last.totals.submitted);
  history.value = anew ? [next] : [...history.peek(), next].slice(-keptSamples);
}

// late is what came while the reader paused.
let late: Overview | null = null;
effect(() => { if (!paused.value && late) took(late); });

// rate is how much of something happens in a second, over about the last ten.
export function rate(of: (s: Sample) => number | undefined, over = 10_000): number | null {
  const all = history.value, end = all.at(-1);
  if (!end) return null;
  const begin = all.find((s) => s.at >= end.at - over - 500);
  const a = begin && of(begin), b = of(end);
  if (!begin || a === undefined || b === undefined || end.at - begin.at < 900) return null;
  return Math.max(0, (b - a) * 1000 / (end.at - begin.at));
}

// rates are the differences of neighbouring samples by second, for a small curve.
export function rates(of: (s: Sample) => number | undefined): number[] {
  const all = history.value, out: number[] = [];
  for (let i = 1; i < all.length; i++) {
    const a = of(all[i - 1]), b = of(all[i]);
    if (a !== undefined && b !== undefined) out.push(Math.max(0, (b - a) * 1000 / Math.max(1, all[i].at - all[i - 1].at)));
  }
  return out;
}

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("rota-overview " + base) : null;
let whole: Overview | null = null;
let leading = false;

channel?.addEventListener("message", (e: MessageEvent) => {
  const m = e.data as { kind: string; overview?: Overview; link?: Link };
  if (m.kind === "ask" && leading && whole) channel.postMessage({ kind: "overview", overview: whole, link: link.peek() });
  if (m.kind === "overview" && !leading) { link.value = m.link ?? "live"; if (m.overview) took(m.overview); }
});

function tell() {
  channel?.postMessage({ kind: "overview", overview: whole, link: link.peek() });
}

// one reads the stream until it breaks.
async function one(cut: AbortSignal) {
  await events("v1/overview/stream", cut, (event, data) => {
    const value: unknown = JSON.parse(data);
    if (event === "snapshot") whole = value as Overview;
    else if (event === "patch" && whole) whole = merged(whole, value) as Overview;
    else return;
    link.value = "live";
    took(whole);
    tell();
  });
}

async function lead() {
  leading = true;
  for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
    const cut = new AbortController(), begun = tokens.peek();
    const stop = tokens.subscribe((n) => { if (n !== begun) cut.abort(); });
    try {
      await one(cut.signal);
      wait = 500;
    } catch (err) {
      trouble.value = err instanceof Problem ? err.detail : "";
      const status = err instanceof Problem ? err.status : 0;
      link.value = status === 404 || status === 403 ? "missing" : "broken";
      if (status === 403) wait = 10_000;
    } finally { stop(); }
    if (link.peek() === "live") link.value = "broken";
    tell();
    await new Promise((done) => setTimeout(done, wait));
  }
}

export function follow() {
  if (!navigator.locks || !channel) { void lead(); return; }
  channel.postMessage({ kind: "ask" });
  void navigator.locks.request("rota-overview " + base, lead);
  // Until the leader speaks, or where it hangs, this tab asks for itself once.
  setTimeout(() => {
    if (!leading && overview.peek() === null && asking.peek() === null) {
      get<Overview>("v1/overview").then((o) => { if (!overview.peek()) took(o); }).catch(() => {});
    }
  }, 800);
}
