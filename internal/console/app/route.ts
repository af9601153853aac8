// The place on the screen is the URL behind #: #/tasks?queue=mail&state=dead. So it works behind any prefix, and
// a link to a view is a link.
import { signal } from "@preact/signals";

export type Route = { path: string[]; query: URLSearchParams; text: string };

function parse(): Route {
  const text = location.hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = (mark < 0 ? text : text.slice(0, mark)).split("/").filter(Boolean);
  return { path: path.map(decoded), query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)), text };
}

function decoded(s: string): string {
  try { return decodeURIComponent(s); } catch { return s; }
}

export const route = signal<Route>(parse());
addEventListener("hashchange", () => { route.value = parse(); });

type Fields = Record<string, string | number | undefined | null | false>;

// to is the address of a screen.
export function to(path: string[], query: Fields = {}): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v !== undefined && v !== null && v !== "" && v !== false) q.set(k, String(v));
  const text = q.toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export function go(path: string[], query: Fields = {}) {
  location.hash = to(path, query);
}

// setQuery changes the query of the present screen without a step of history.
export function setQuery(fields: Fields) {
  const q = new URLSearchParams(route.peek().query);
  for (const [k, v] of Object.entries(fields)) {
    if (v === undefined || v === null || v === "" || v === false) q.delete(k);
    else q.set(k, String(v));
  }
  const text = q.toString();
  history.replaceState(null, "", "#/" + route.peek().path.map(encodeURIComponent).join("/") + (text ? "?" + text : ""));
  route.value = parse();
}
