// Calls of the node that served this page. The access token is asked for when a call is refused for want of one.
import { signal } from "@preact/signals";
import { keepToken, tokenKept } from "./prefs";

export type Right = "read" | "prepare" | "submit" | "work" | "operate" | "destroy";
export type Access = { name: string; role: string; anonymous: boolean; may: Right[]; scope: null | Record<string, unknown> };

// base is where the node's calls begin, whatever prefix a proxy put before them.
export const base = new URL(".", document.baseURI.split("#")[0]).href;

let { token, always } = tokenKept();

// asking is why a token is asked for; null = none is.
export const asking = signal<null | "none" | "wrong">(null);
// access is who the reader is by the token; null = this node does not tell, undefined = it was not asked yet.
export const access = signal<Access | null | undefined>(undefined);
// tokens counts the changes of the token, for what has to begin again.
export const tokens = signal(0);
export const hasToken = () => token !== null;

// tokenMark tells tabs with the same token from others; it is for this browser only, and no way back to the token.
export function tokenMark(): string {
  let h = 0x811c9dc5;
  for (const c of token ?? "") h = Math.imul(h ^ c.charCodeAt(0), 0x01000193) >>> 0;
  return token === null ? "" : h.toString(36);
}

let waiting: (() => void)[] = [];

export function giveToken(given: string, keepAlways: boolean) {
  token = given;
  always = keepAlways;
  keepToken(token, always);
  asking.value = null;
  const all = waiting;
  waiting = [];
  for (const go of all) go();
  tokens.value++;
  void readAccess();
}

export function forgetToken() {
  token = null;
  keepToken(null, false);
  access.value = undefined;
  asking.value = "none";
  tokens.value++;
}

export class Problem extends Error {
  constructor(
    readonly status: number, readonly detail: string,
    readonly errors: { location: string; message: string }[] = [], readonly need?: Right,
  ) {
    super(detail);
  }
}

// whole is what a refusal says: its text, and what is wrong where.
export function whole(err: unknown): string {
  if (!(err instanceof Problem)) return String((err as Error).message ?? err);
  const at = err.errors.filter((e) => e.message && !err.detail.includes(e.message)).map((e) => e.location + ": " + e.message);
  return [err.detail, ...at].filter(Boolean).join(" · ");
}

export type Options = { body?: unknown; raw?: string; need?: Right; signal?: AbortSignal };

export async function request(method: string, path: string, o: Options = {}): Promise<Response> {
  for (;;) {
    if (asking.peek() !== null) await new Promise<void>((go, stop) => { waiting.push(go); o.signal?.addEventListener("abort", () => stop(o.signal!.reason)); });
    const sent = token;
    const headers: Record<string, string> = {};
    if (sent !== null) headers.Authorization = "Bearer " + sent;
    const body = o.raw ?? (o.body === undefined ? undefined : JSON.stringify(o.body));
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let answer: Response;
    try {
      answer = await fetch(base + path, { method, headers, body, signal: o.signal, cache: "no-store" });
    } catch (err) {
      if (o.signal?.aborted) throw err;
      throw new Problem(0, "");
    }
    if (answer.status !== 401) return answer;
    if (sent === token && asking.peek() === null) asking.value = sent === null ? "none" : "wrong";
  }
}

export async function call(method: string, path: string, o: Options = {}): Promise<string> {
  const answer = await request(method, path, o);
  const text = await answer.text();
  if (answer.ok) return text;
  throw problemOf(answer.status, text, answer.statusText, o.need);
}

function problemOf(status: number, text: string, title: string, need?: Right): Problem {
  let p: { detail?: string; title?: string; errors?: [] } = {};
  try { p = JSON.parse(text); } catch { /* not ours: a proxy's */ }
  return new Problem(status, p.detail || p.title || title || String(status), p.errors ?? [], need);
}

export async function get<A>(path: string, o: Options = {}): Promise<A> {
  return JSON.parse(await call("GET", path, o)) as A;
}

export async function send<A>(method: string, path: string, body?: unknown, need: Right = "operate"): Promise<A> {
  const text = await call(method, path, { body, need });
  return (text ? JSON.parse(text) : undefined) as A;
}

export async function readAccess() {
  try {
    access.value = await get<Access>("v1/access");
  } catch { access.value = null; }
}

// may tells whether a button has a point. Where the node does not tell it is shown, and the refusal too.
export function may(need: Right): boolean {
  return access.value === null || (access.value?.may.includes(need) ?? false);
}

export const part = encodeURIComponent;

// query writes what is not empty.
export function query(fields: Record<string, string | number | boolean | undefined | null>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(fields)) if (v !== undefined && v !== null && v !== "" && v !== false) q.set(k, String(v));
  const text = q.toString();
  return text ? "?" + text : "";
}

// A node says something on a stream every 15 seconds at least: one that says nothing for three times as long is gone.
const longest = 45_000;

// events reads a stream of server-sent events until it ends or is cut off, or until nothing at all came for so long, which is a
// break: no browser notices by itself that what lies between forgot the connection. opened is called when the node has answered.
export async function events(
  path: string, cut: AbortSignal, each: (event: string, data: string, id: string) => void, opened?: () => void, silence = longest,
) {
  const answer = await request("GET", path, { signal: cut });
  if (!answer.ok || !answer.body) throw problemOf(answer.status, await answer.text(), answer.statusText);
  opened?.();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "", gone = false;
  for (;;) {
    const timer = setTimeout(() => { gone = true; reader.cancel().catch(() => {}); }, silence);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (gone) throw new Problem(0, "");
    if (done) return;
    left += value.replaceAll("\r\n", "\n");
    for (let end = left.indexOf("\n\n"); end >= 0; end = left.indexOf("\n\n")) {
      let event = "message", id = "";
      const data: string[] = [];
      for (const line of left.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        if (colon <= 0) continue;
        const text = line.slice(colon + 1).replace(/^ /, "");
        const field = line.slice(0, colon);
        if (field === "event") event = text;
        else if (field === "data") data.push(text);
        else if (field === "id") id = text;
      }
      left = left.slice(end + 2);
      if (data.length) each(event, data.join("\n"), id);
    }
  }
}
