// What all tabs of this browser read together: whichever wants something first reads it, and tells the others over a
// broadcast channel. A Web Lock lets one read at a time; where a page may have none (plain http from elsewhere) two tabs
// that begin at once both read. A tab that nobody looks at reads nothing, so none of them leads.
import { base, tokenMark } from "./api";

// Known is something that was read: when, by the clock of this tab, how long that took, and whether this tab did it.
export type Known<A> = { data: A; at: number; took: number; mine: boolean };
type Told = { path: string; data: unknown; took: number };

const ears = new Set<(path: string) => void>();
let name: string | null = null, channel: BroadcastChannel | null = null, all = new Map<string, Known<unknown>>();

const most = 50;
function keep(of: Map<string, Known<unknown>>, path: string, k: Known<unknown>) {
  of.delete(path);
  of.set(path, k);
  for (const oldest of of.keys()) if (of.size > most) of.delete(oldest);
}

// shared is what tabs with this token know: those with another one see something else.
function shared(): Map<string, Known<unknown>> {
  const now = "rota-read " + base + " " + tokenMark();
  if (now === name) return all;
  channel?.close();
  name = now;
  const mine = all = new Map<string, Known<unknown>>();
  channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(name) : null;
  channel?.addEventListener("message", (e: MessageEvent<Told>) => {
    const { path, data, took } = e.data;
    keep(mine, path, { data, took, at: performance.now(), mine: false });
    if (mine === all) for (const ear of ears) ear(path);
  });
  return all;
}

// hear calls when another tab read something, until what it answers is called.
export function hear(ear: (path: string) => void): () => void {
  shared();
  ears.add(ear);
  return () => { ears.delete(ear); };
}

// rest is how long something that was read is to do: what takes long is read less often, so that a browser keeps a node
// busy for a twentieth of the time at most.
export const rest = (every: number, took: number) => Math.max(every, 19 * took);

// Whoever did not read it itself waits a moment longer for who did.
const courtesy = 250;
export const again = (every: number, k: Known<unknown>) => rest(every, k.took) + (k.mine ? 0 : courtesy);

// knownOf is what some tab read of a path by now.
export const knownOf = <A>(path: string) => shared().get(path) as Known<A> | undefined;

// together answers what some tab read a moment ago, or reads it; read is given what was known before. Who just came to a
// screen wants to see how it is now: for them a moment is a second.
const moment = 1000;
export async function together<A>(path: string, every: number, came: boolean, cut: AbortSignal, read: (last: A | null) => Promise<A>): Promise<Known<A>> {
  for (;;) {
    const of = shared(), known = of.get(path) as Known<A> | undefined;
    if (known && performance.now() - known.at < (came ? moment : 0.9 * rest(every, known.took))) return known;
    const one = async (): Promise<Known<A>> => {
      const began = performance.now(), data = await read(known?.data ?? null), at = performance.now();
      const is: Known<A> = { data, at, took: at - began, mine: true };
      keep(of, path, is);
      if (of === all) channel?.postMessage({ path, data, took: is.took } satisfies Told);
      return is;
    };
    const is = navigator.locks ? await navigator.locks.request(name + " " + path, { ifAvailable: true }, (lock) => (lock ? one() : null)) : await one();
    if (is) return is;
    await new Promise((done) => setTimeout(done, courtesy));
    cut.throwIfAborted();
  }
}
