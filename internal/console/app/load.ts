// Reading for screens: what was read stays on the screen while it is read again, so nothing jumps.
import { useEffect, useRef, useState } from "preact/hooks";
import { asking, get, tokens } from "./api";
import { paused } from "./prefs";
import { again as after, hear, knownOf, rest, together, type Known } from "./together";

export type Loaded<A> = { data: A | null; error: unknown; busy: boolean; again: () => void };

// Reader reads a path; last is what is known of it, of one that tabs read together.
type Reader<A> = (path: string, cut: AbortSignal, last: A | null) => Promise<A>;

// useLoad reads a path now, and every so many milliseconds while somebody looks. null = nothing to read yet.
export function useLoad<A>(path: string | null, every = 0, reader: Reader<A> = (p, signal) => get<A>(p, { signal })): Loaded<A> {
  return useReading(path, every, async (path, cut) => {
    const began = performance.now(), data = await reader(path, cut, null), at = performance.now();
    return { data, at, took: at - began, mine: true };
  }, false);
}

// useShared is useLoad of what all tabs of this browser read together: ten of them cost the node what one does. It is for
// what many screens show and no action changes at once: what another tab read within a second is not read again.
export function useShared<A>(path: string, every: number, reader: Reader<A> = (p, signal) => get<A>(p, { signal })): Loaded<A> {
  return useReading(path, every, (path, cut, came) => together<A>(path, every, came, cut, (last) => reader(path, cut, last)), true);
}

function useReading<A>(path: string | null, every: number, read: (path: string, cut: AbortSignal, came: boolean) => Promise<Known<A>>, listens: boolean): Loaded<A> {
  const [state, setState] = useState<{ path: string | null; data: A | null; error: unknown; busy: boolean }>({ path, data: null, error: null, busy: true });
  const [turn, setTurn] = useState(0);
  const given = tokens.value;
  useEffect(() => {
    if (path === null) return;
    const cut = new AbortController();
    let timer = 0;
    const round = async (came = false) => {
      const began = performance.now();
      let next: number;
      try {
        const known = await read(path, cut.signal, came);
        if (cut.signal.aborted) return;
        setState({ path, data: known.data, error: null, busy: false });
        next = after(every, known);
      } catch (error) {
        if (cut.signal.aborted) return;
        setState((s) => ({ path, data: s.path === path ? s.data : null, error, busy: false }));
        next = rest(every, performance.now() - began);
      }
      clearTimeout(timer);
      if (every) timer = window.setTimeout(look, next);
    };
    const look = () => {
      if (paused.peek() || document.hidden || asking.peek() !== null) timer = window.setTimeout(look, 500);
      else void round();
    };
    const before = listens ? knownOf<A>(path)?.data ?? null : null;
    setState((s) => (s.path === path ? { ...s, data: s.data ?? before, busy: true } : { path, data: before, error: null, busy: true }));
    void round(true);
    const deaf = listens ? hear((told) => { if (told === path) { clearTimeout(timer); look(); } }) : undefined;
    return () => { cut.abort(); clearTimeout(timer); deaf?.(); };
  }, [path, every, turn, given]);
  const fits = state.path === path;
  return { data: fits ? state.data : null, error: fits ? state.error : null, busy: !fits || state.busy, again: () => setTurn((n) => n + 1) };
}

export type Page<A> = { items: A[]; next: string };
export type Pages<A> = Loaded<A[]> & { more: (() => void) | null; pages: number; reading: boolean };

// usePages reads a list page by page, and all pages that somebody wanted to see again and again, so that none of them stands still.
// A page may be empty while there is a next one, where a search was cut short: so many are read at once.
export function usePages<A>(path: string | null, every = 0, idle = 5): Pages<A> {
  const [wanted, setWanted] = useState({ path, pages: 1 });
  const pages = wanted.path === path ? wanted.pages : 1;
  const many = useRef(pages);
  many.current = pages;
  const list = useLoad<Page<A>[]>(path, every, async (p, signal) => {
    const all = [await filled<A>(p, "", signal, idle)];
    for (let next = all[0].next; next && all.length < many.current; next = all.at(-1)!.next) all.push(await filled<A>(p, next, signal, idle));
    return all;
  });
  const reading = list.busy && list.data !== null && list.data.length < pages;
  const more = () => {
    if (reading) return;
    setWanted({ path, pages: (list.data?.length ?? 0) + 1 });
    list.again();
  };
  const next = list.data?.at(-1)?.next;
  return { ...list, data: list.data && list.data.flatMap((p) => p.items), pages: list.data?.length ?? 0, reading, more: next ? more : null };
}

const firstPages = 5;

// readAll reads the first pages of a list; more says that there is more than that.
export async function readAll<A>(path: string, signal: AbortSignal): Promise<{ items: A[]; more: boolean }> {
  const items: A[] = [];
  let cursor = "";
  for (let n = 0; n < firstPages; n++) {
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
