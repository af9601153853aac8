// History: what the node kept by the minute and the hour.
import { useMemo } from "preact/hooks";
import { get, Problem, query } from "./api";
import { t, type Key } from "./i18n";
import { useShared, type Loaded } from "./load";
import { Plot, evenTimes, perSecond, type Curve, type Mark } from "./plot";
import { route, setQuery } from "./route";
import { duration, millis, now } from "./time";
import { Fault, Panel } from "./ui";

type Percentiles = { p50: string | null; p95: string | null; p99: string | null } | null;
export type Bucket = {
  at: string; submitted: number; started: number; done: number; retried: number; dead: number; cancelled: number; expired: number; lost: number;
  passed: number; snoozed: number; timed_out: number; released: number; woken: number;
  ready: number; running: number; wait?: Percentiles; run?: Percentiles;
};
export type Stats = { items: Bucket[]; missing?: boolean };

export const spans = { "1h": [36e5, 60], "6h": [216e5, 300], "24h": [864e5, 900], "7d": [6048e5, 7200], "30d": [2592e6, 21600] } as const;
export type Span = keyof typeof spans;
export const span = (): Span => { const s = route.value.query.get("span") as Span; return Object.hasOwn(spans, s) ? s : "1h"; };

export function SpanChoice() {
  const chosen = span();
  return <div class="choice" role="group" aria-label={t("span")}>{(Object.keys(spans) as Span[]).map((s) => (
    <button type="button" key={s} aria-pressed={s === chosen} onClick={() => setQuery({ span: s === "1h" ? null : s })}>{s}</button>
  ))}</div>;
}

// useStats reads the chosen span; a node without history answers 404, which is no fault.
export function useStats(of: { queue?: string; stage?: string; worker?: string }, chosen: Span = span()): Loaded<Stats> & { step: number } {
  const [length, step] = spans[chosen];
  const path = "v1/stats" + query({ ...of, step: step + "s" });
  const loaded = useShared<Stats>(path + "#" + chosen, Math.max(5_000, step * 100), async (p, signal) => {
    const end = now.peek(), from = Math.floor((end - length) / (step * 1000)) * step * 1000;
    try {
      return await get<Stats>(p.split("#")[0] + "&from=" + encodeURIComponent(new Date(from).toISOString()), { signal });
    } catch (err) {
      if (err instanceof Problem && err.status === 404) return { items: [], missing: true };
      throw err;
    }
  });
  return { ...loaded, step };
}

function Shell({ stats, children }: { stats: Loaded<Stats>; children: () => preact.ComponentChildren }) {
  if (stats.error) return <Fault error={stats.error} again={stats.again} />;
  if (!stats.data) return <div class="plot-space quiet">{t("reading")}</div>;
  if (stats.data.missing || stats.data.items.length === 0) return <div class="plot-space quiet">{t("noHistory")}</div>;
  return <>{children()}</>;
}

// What is shown where there is some of it; drawn where it has a colour.
const rare: ["lost" | "expired" | "cancelled" | "timed_out" | "passed" | "snoozed" | "released" | "woken", Key, (3 | 4)?][] = [
  ["lost", "lostWord", 3], ["expired", "expired", 4], ["cancelled", "cancelledWord"], ["timed_out", "timedOutWord"], ["passed", "passedWord"], ["snoozed", "snoozedWord"],
  ["released", "releasedWord"], ["woken", "wokenWord"],
];

// Throughput is what came and went; of a worker what it began, as nothing is submitted to it.
export function Throughput({ stats, step, marks, worker }: { stats: Loaded<Stats>; step: number; marks?: Mark[]; worker?: boolean }) {
  const items = stats.data?.items ?? [];
  const at = useMemo(() => items.map((b) => Date.parse(b.at) / 1000), [stats.data]);
  const curves = useMemo<Curve[]>(() => {
    // The newest period is not over: what it has so far is of the time it has lasted.
    const lasts = (b: Bucket) => Math.min(step, Math.max(step / 10, (now.peek() - Date.parse(b.at)) / 1000));
    const of = (f: (b: Bucket) => number) => items.map((b) => f(b) / lasts(b));
    return [
      worker ? { label: t("startedWord"), values: of((b) => b.started), colour: 2, dash: true } : { label: t("submitted"), values: of((b) => b.submitted), colour: 2, dash: true },
      { label: t("done"), values: of((b) => b.done), colour: 1, fill: true },
      { label: t("retried"), values: of((b) => b.retried), colour: 3 },
      { label: t("deadWord"), values: of((b) => b.dead), colour: 4 },
      ...(worker ? [] : [{ label: t("startedWord"), values: of((b) => b.started), colour: 2, told: true } as Curve]),
      ...rare.filter(([key]) => items.some((b) => b[key])).map(([key, label, colour]): Curve => ({ label: t(label), values: of((b) => b[key]), colour: colour ?? 2, dash: true, told: !colour })),
    ];
  }, [stats.data]);
  return <Shell stats={stats}>{() => <Plot label={t("throughput")} at={at} step={step} curves={curves} say={(n) => perSecond(n) + "/s"} marks={marks} />}</Shell>;
}

export function Band({ stats, step, of }: { stats: Loaded<Stats>; step: number; of: "wait" | "run" }) {
  const items = stats.data?.items ?? [];
  const at = useMemo(() => items.map((b) => Date.parse(b.at) / 1000), [stats.data]);
  const curves = useMemo<Curve[]>(() => {
    const p = (k: "p50" | "p95" | "p99") => items.map((b) => { const d = b[of]?.[k]; return d ? millis(d) : null; });
    return [
      { label: "p50", values: p("p50"), colour: 1 },
      { label: "p95", values: p("p95"), colour: 3 },
      { label: "p99", values: p("p99"), colour: 2, dash: true, band: 0 },
    ];
  }, [stats.data]);
  return <Shell stats={stats}>{() => <Plot label={of === "wait" ? t("waitTime") : t("runTime")} at={at} step={step} curves={curves} ticks={evenTimes} say={duration} />}</Shell>;
}

// WorkerHistory is what a worker did, and how long its tasks waited for it and ran.
export function WorkerHistory({ name }: { name: string }) {
  const stats = useStats({ worker: name });
  return (
    <>
      <Panel title={t("throughput")} side={<SpanChoice />}><Throughput stats={stats} step={stats.step} worker /></Panel>
      <div class="two">
        <Panel title={t("waitTime")}><Band stats={stats} step={stats.step} of="wait" /></Panel>
        <Panel title={t("runTime")}><Band stats={stats} step={stats.step} of="run" /></Panel>
      </div>
    </>
  );
}

// Arrivals are bars of what was submitted, over which a span can be chosen with the mouse.
export function Arrivals({ queue, brush }: { queue?: string; brush: (from: number, to: number) => void }) {
  const stats = useStats({ queue });
  const items = stats.data?.items ?? [];
  const at = useMemo(() => items.map((b) => Date.parse(b.at) / 1000), [stats.data]);
  const curves = useMemo<Curve[]>(() => [
    { label: t("submitted"), values: items.map((b) => b.submitted), colour: 1, bars: true },
    { label: t("deadWord"), values: items.map((b) => b.dead), colour: 4 },
  ], [stats.data]);
  return <Shell stats={stats}>{() => <Plot label={t("arrivals")} at={at} step={stats.step} curves={curves} height={110} brush={brush} say={(n) => perSecond(n)} />}</Shell>;
}
