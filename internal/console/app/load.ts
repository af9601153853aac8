// Reading for screens: what was read stays on the screen while it is read again, so nothing jumps.
import { useEffect, useRef, useState } from "preact/hooks";
import { asking, get, tokens } from "./api";
import { paused } from "./prefs";

export type Loaded<A> = { data: A | null; error: unknown; busy: boolean; again: () => void };

// useLoad reads a path now, and every so many milliseconds while somebody looks. null = nothing to read yet.
export function useLoad<A>(path: string | null, every = 0, reader: (path: string, cut: AbortSignal) => Promise<A> = (p, signal) => get<A>(p, { signal })): Loaded<A> {
  const [state, setState] = useState<{ path: string | null; data: A | null; error: unknown; busy: boolean }>({ path, data: null, error: null, busy: true });
  const [turn, setTurn] = useState(0);
  const given = tokens.value;
  useEffect(() => {
    if (path === null) return;
    const cut = new AbortController();
    let timer = 0;
    const round = async () => {
      const began = performance.now();
      try {
        const data = await reader(path, cut.signal);
        if (!cut.signal.aborted) setState({ path, data, error: null, busy: false });
      } catch (error) {
        if (cut.signal.aborted) return;
        setState((s) => ({ path, data: s.path === path ? s.data : null, error, busy: false }));
      }
      // What takes long is read less often: a screen keeps a node busy for a twentieth of the time at most.
      if (every && !cut.signal.aborted) timer = window.setTimeout(look, Math.max(every, 19 * (performance.now() - began)));
    };
    const look = () => {
      if (paused.peek() || document.hidden || asking.peek() !== null) timer = window.setTimeout(look, 500);
      else void round();
    };
    setState((s) => (s.path === path ? { ...s, busy: true } : { path, data: null, error: null, busy: true }));
    void round();
    return () => { cut.abort(); clearTimeout(timer); };
  }, [path, every, turn, given]);
  const fits = state.path === path;
  return { data: fits ? state.data : null, error: fits ? state.error : null, busy: !fits || state.busy, again: () => setTurn((n) => n + 1) };
}

export type Page<A> = { items: A[]; next: string };
export type Pages<A> = Loaded<A[]> & { more: (() => void) | null; pages: number; reading: boolean };

// usePages reads a list page by page, and its first page again and again. A page may be empty while there is a next one,
// where a search was cut short: so many are read at once.
export function usePages<A>(path: string | null, every = 0, idle = 5): Pages<A> {
  const first = useLoad<Page<A>>(path, every, (p, signal) => filled<A>(p, "", signal, idle));
  const [rest, setRest] = useState<{ path: string | null; pages: Page<A>[]; first: Page<A> | null; error: unknown }>({ path, pages: [], first: null, error: null });
  const [reading, setReading] = useState(false);
  const cut = useRef<AbortController | null>(null);
  useEffect(() => () => cut.current?.abort(), [path]);
  const mine = rest.path === path && rest.pages.length > 0;
  const begin = mine ? rest.first : first.data;
  const all = begin ? [begin, ...(mine ? rest.pages : [])] : [];
  const next = all.at(-1)?.next ?? "";
  const more = () => {
    if (!path || reading) return;
    setReading(true);
    cut.current = new AbortController();
    const signal = cut.current.signal;
    filled<A>(path, next, signal, idle)
      .then((page) => setRest((r) => ({ path, first: begin, pages: [...(r.path === path ? r.pages : []), page], error: null })))
      .catch((error) => { if (!signal.aborted) setRest((r) => ({ ...r, error })); })
      .finally(() => setReading(false));
  };
  return {
    data: begin ? all.flatMap((p) => p.items) : null, error: first.error ?? rest.error, busy: first.busy, pages: all.length, reading,
    again: () => { setRest({ path, pages: [], first: null, error: null }); first.again(); },
    more: next ? more : null,
  };
}

// readAll reads the first pages of a list; more says that there is more than that.
export async function readAll<A>(path: string, signal: AbortSignal, pages = 5): Promise<{ items: A[]; more: boolean }> {
  const items: A[] = [];
  let cursor = "";
  for (let n = 0; n < pages; n++) {
    const page = await get<Page<A>>(path + (cursor ? "&cursor=" + encodeURIComponent(cursor) : ""), { signal });
    items.push(...page.items);
    cursor = page.next;
    if (!cursor) return { items, more: false };
  }
  return { items, more: true };
}

// filled reads on over pages that are empty only because a search was cut short.
async function filled<A>(path: string, cursor: string, signal: AbortSignal, idle: number): Promise<Page<A>> {
  let page: Page<A> = { items: [], next: cursor };
  for (let n = 0; n < idle; n++) {
    const at = page.next ? path + (path.includes("?") ? "&" : "?") + "cursor=" + encodeURIComponent(page.next) : path;
    page = await get<Page<A>>(at, { signal });
    if (page.items.length > 0 || !page.next) break;
  }
  return page;
}
