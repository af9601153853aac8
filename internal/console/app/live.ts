// The overview, live. One tab of this browser holds the stream and tells the others: a Web Lock says which, a
// broadcast channel carries what came. Where a page may have no locks (plain http from elsewhere) each tab has a
// stream of its own.
import { effect, signal } from "@preact/signals";
import { asking, base, events, get, Problem, tokenMark, tokens } from "./api";
import { merged } from "./merge";
import { paused } from "./prefs";
import { nodeTime } from "./time";

export type Totals = Record<"submitted" | "started" | "done" | "retried" | "dead" | "cancelled" | "expired" | "lost", number> & { since: string };
export type QueueLine = {
  queue: string; ready: number; waiting: number; blocked: number; running: number; oldest_ready?: string | null; paused: boolean; limited?: boolean;
  submitted: number; done: number; dead: number;
};
export type Overview = {
  at: string; age: string; node: string; version: string; oldest_ready?: { queue: string; age: string } | null;
  ready: number; waiting: number; blocked: number; running: number; capacity: number; dead_hour: number; totals: Totals;
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

// A node tells of the time at least every five seconds: a screen that says that it is live was told a moment ago.
const silence = 15_000;

type Message = { kind: "ask" } | { kind: "told"; overview: Overview | null; link: Link };

const pause = (ms: number, cut: AbortSignal) => new Promise<void>((done) => {
  const timer = setTimeout(done, ms);
  cut.addEventListener("abort", () => { clearTimeout(timer); done(); });
});

// Sharing is one token's share in the stream: tabs with another token see something else.
class Sharing {
  private whole: Overview | null = null;
  private leads = false;
  private readonly channel: BroadcastChannel | null = null;
  private readonly name = "rota-overview " + base + " " + tokenMark();

  constructor(private readonly cut: AbortSignal) {
    if (!navigator.locks || !("BroadcastChannel" in globalThis)) { void this.lead(); return; }
    this.channel = new BroadcastChannel(this.name);
    this.channel.addEventListener("message", (e: MessageEvent<Message>) => this.hear(e.data));
    cut.addEventListener("abort", () => this.channel?.close());
    this.channel.postMessage({ kind: "ask" } satisfies Message);
    navigator.locks.request(this.name, { signal: cut }, () => this.lead()).catch(() => {});
    void this.alone();
  }

  private hear(m: Message) {
    if (m.kind === "ask" && this.leads) this.tell();
    if (m.kind !== "told" || this.leads || this.cut.aborted) return;
    link.value = m.link;
    if (m.overview) took(m.overview);
  }

  private tell() {
    this.channel?.postMessage({ kind: "told", overview: this.whole, link: link.peek() } satisfies Message);
  }

  // alone asks once where the tab that leads says nothing.
  private async alone() {
    await pause(800, this.cut);
    if (this.leads || overview.peek() || this.cut.aborted) return;
    try { const o = await get<Overview>("v1/overview", { signal: this.cut }); if (!overview.peek()) took(o); } catch { /* the one that leads says it */ }
  }

  private async lead() {
    this.leads = true;
    for (let wait = 500; !this.cut.aborted; wait = Math.min(wait * 2, 10_000)) {
      try {
        await events("v1/overview/stream", this.cut, (event, data) => {
          const value: unknown = JSON.parse(data);
          if (event === "snapshot") this.whole = value as Overview;
          else if (event === "patch" && this.whole) this.whole = merged(this.whole, value) as Overview;
          else return;
          wait = 500;
          link.value = "live";
          took(this.whole);
          this.tell();
        }, undefined, silence);
        link.value = "broken";
      } catch (err) {
        const status = err instanceof Problem ? err.status : 0;
        trouble.value = err instanceof Problem ? err.detail : "";
        link.value = status === 404 || status === 403 ? "missing" : "broken";
      }
      if (this.cut.aborted) break;
      this.tell();
      await pause(wait, this.cut);
    }
    this.channel?.close();
  }
}

// follow has a share in the stream for as long as there is one token and it is good.
export async function follow() {
  for (;;) {
    await new Promise<void>((go) => { const off = effect(() => { if (asking.value === null) setTimeout(() => { off(); go(); }); }); });
    const cut = new AbortController(), begun = tokens.peek();
    link.value = "connecting";
    new Sharing(cut.signal);
    await new Promise<void>((end) => {
      const off = effect(() => { if (tokens.value !== begun || asking.value !== null) setTimeout(() => { off(); cut.abort(); end(); }); });
    });
    overview.value = null;
    history.value = [];
  }
}
