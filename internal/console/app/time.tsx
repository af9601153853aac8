import { signal } from "@preact/signals";
import { lang, paused } from "./prefs";
import { t } from "./i18n";
import { T } from "./text";

// now is the node's time as well as this browser can tell it. It stands still while live updates pause.
export const now = signal(Date.now());
let ahead = 0;

export function nodeTime(at: string) {
  const ms = Date.parse(at);
  if (!Number.isNaN(ms)) ahead = ms - Date.now();
}

setInterval(() => { if (!paused.peek() && !document.hidden) now.value = Date.now() + ahead; }, 1000);

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5 };

// millis reads a duration as Go writes it.
export function millis(d: string | null | undefined): number {
  if (!d) return 0;
  let sum = 0;
  for (const [, n, u] of d.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g)) sum += Number(n) * units[u];
  return d.startsWith("-") ? -sum : sum;
}

const words = {
  en: { d: "d", h: "h", m: "min", s: "s", ms: "ms" },
  zh: { d: "天", h: "小时", m: "分", s: "秒", ms: "毫秒" },
};

// duration shows a length of time in at most two units.
export function duration(ms: number): string {
  if (ms < 0) return "−" + duration(-ms);
  const w = words[lang.value];
  if (ms < 1) return ms === 0 ? "0 " + w.s : ms.toFixed(2) + " " + w.ms;
  if (ms < 1000) return (ms < 10 ? ms.toFixed(1) : ms.toFixed(0)) + " " + w.ms;
  if (ms < 10_000) return (ms / 1000).toFixed(1).replace(/\.0$/, "") + " " + w.s;
  const s = Math.floor(ms / 1000);
  if (s < 60) return s + " " + w.s;
  const two = (a: number, ua: string, b: number, ub: string) => a + " " + ua + (b ? " " + b + " " + ub : "");
  if (s < 3600) return two(Math.floor(s / 60), w.m, s % 60, w.s);
  if (s < 86400) return two(Math.floor(s / 3600), w.h, Math.floor((s % 3600) / 60), w.m);
  return two(Math.floor(s / 86400), w.d, Math.floor((s % 86400) / 3600), w.h);
}

// rough is how long ago or how far ahead, in one unit: it changes seldom.
export function rough(ms: number): string {
  const text = about(ms);
  return Math.abs(ms) < 500 ? t("now") : ms >= 0 ? t("ago", { d: text }) : t("in", { d: text });
}

// about is a length of time in one unit.
export function about(ms: number): string {
  const s = Math.round(Math.abs(ms) / 1000), w = words[lang.value];
  const n = s < 90 ? [s, w.s] : s < 5400 ? [Math.round(s / 60), w.m] : s < 129600 ? [Math.round(s / 3600), w.h] : [Math.round(s / 86400), w.d];
  return n.join(" ");
}

// clock is an instant by the reader's clock, or by that of a zone; in UTC, and saying so, where the browser does not know the zone,
// and "–" where it is none.
export function clock(ms: number, zone?: string): string {
  if (Number.isNaN(new Date(ms).getTime())) return "–";
  const at = new Date(ms), today = new Date(now.peek());
  const near = Math.abs(ms - now.peek()) < 20 * 36e5 && at.toDateString() === today.toDateString() && !zone;
  const o: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: zone || undefined };
  if (!near) Object.assign(o, { year: "numeric", month: "2-digit", day: "2-digit" });
  try { return new Intl.DateTimeFormat("sv-SE", o).format(at); } catch { return at.toISOString(); }
}

// When shows an instant, absolute and relative.
export function When({ at, zone }: { at: string | null | undefined; zone?: string }) {
  if (!at) return <span class="quiet">–</span>;
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return <T s={at} />;
  return (
    <time dateTime={at} title={at} class="when">
      {clock(ms, zone)} <span class="quiet">{rough(now.value - ms)}</span>
    </time>
  );
}

// Age is how long something lasts by now.
export function Age({ since }: { since: string | null | undefined }) {
  if (!since) return <span class="quiet">–</span>;
  if (Number.isNaN(Date.parse(since))) return <T s={since} />;
  return <time dateTime={since} title={since}>{duration(Math.max(0, Math.floor((now.value - Date.parse(since)) / 1000) * 1000))}</time>;
}

export function Dur({ d }: { d: string | null | undefined }) {
  return d ? <span title={d}>{duration(millis(d))}</span> : <span class="quiet">–</span>;
}
