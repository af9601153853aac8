// A plot of some curves over time, drawn in SVG, with a table that says the same in numbers.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { number, t } from "./i18n";
import { T, plain } from "./text";
import { clock } from "./time";

// Curve is a line, with what is below it filled, or a band down to the curve at the index band, or bars. One that is told
// is not drawn: its numbers stand in the legend and in the table.
export type Curve = { label: string; values: (number | null)[]; colour: 1 | 2 | 3 | 4; fill?: boolean; bars?: boolean; band?: number; dash?: boolean; told?: boolean };
export type Mark = { at: number; text: string };

// Props: at are the times in seconds, ascending; say writes a value; top rounds the upper end of the scale.
type Props = {
  label: string; at: number[]; step: number; curves: Curve[]; say: (n: number) => string; height?: number; marks?: Mark[];
  ticks?: (max: number) => number[]; brush?: (from: number, to: number) => void;
};

const left = 56, right = 10, above = 12, below = 22;

// even are about four round numbers from 0 to at least max.
export function even(max: number): number[] {
  const raw = (max || 1) / 3, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((n) => n * power >= raw)! * power;
  return Array.from({ length: Math.ceil((max || 1) / step) + 1 }, (_, i) => i * step);
}

// evenTimes are round lengths of time, in milliseconds.
export function evenTimes(max: number): number[] {
  const steps = [1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5];
  const step = max > 2000 ? steps.find((s) => max / s <= 4) ?? 1728e5 * Math.ceil(max / 1728e5 / 4) : 0;
  return step ? Array.from({ length: Math.ceil(max / step) + 1 }, (_, i) => i * step) : even(max);
}

const minute = 60, hour = 3600, day = 86400;
const timeSteps = [minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 5 * day, 10 * day, 30 * day];

// timeTicks are whole local times, as many as there is room for.
function timeTicks(from: number, to: number, width: number): { at: number; text: string }[] {
  const step = timeSteps.find((s) => ((to - from) / s) * 62 <= width) ?? 30 * day;
  const offset = new Date(from * 1000).getTimezoneOffset() * 60;
  const out: { at: number; text: string }[] = [];
  const two = (n: number) => String(n).padStart(2, "0");
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) {
    const d = new Date(at * 1000);
    const date = two(d.getMonth() + 1) + "-" + two(d.getDate());
    out.push({ at, text: step >= day || (d.getHours() === 0 && d.getMinutes() === 0) ? date : two(d.getHours()) + ":" + two(d.getMinutes()) });
  }
  return out;
}

export function Plot(p: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [table, setTable] = useState(false);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (table) return;
    const seen = new ResizeObserver(([e]) => setWidth(Math.floor(e.contentRect.width)));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, [table]);
  const twin = <button type="button" class="small twin" aria-pressed={table} onClick={() => setTable(!table)}>{table ? t("asPlot") : t("asTable")}</button>;
  return (
    <figure class="plot">
      <figcaption class="sr">{p.label}</figcaption>
      {table ? <><div class="plot-legend">{twin}</div><Twin {...p} /></> : <div ref={box} class="canvas">{width > 120 ? <Drawing {...p} width={width} twin={twin} /> : null}</div>}
    </figure>
  );
}

function Drawing(p: Props & { width: number; twin: ComponentChildren }) {
  const [at, setAt] = useState<number | null>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const height = p.height ?? 170, n = p.at.length;
  const bars = p.curves.some((c) => c.bars);
  const from = p.at[0], to = Math.max(p.at[n - 1] + (bars ? p.step : 0), from + 1);
  const w = p.width - left - right, h = height - above - below;
  const drawn = p.curves.filter((c) => !c.told);
  const ticks = (p.ticks ?? even)(Math.max(0, ...drawn.flatMap((c) => c.values.map((v) => v ?? 0))));
  const top = ticks[ticks.length - 1];
  const x = (s: number) => left + ((s - from) / (to - from)) * w;
  const y = (v: number) => above + h - (v / top) * h;
  const time = (px: number) => from + ((Math.min(left + w, Math.max(left, px)) - left) / w) * (to - from);
  const nearest = (px: number) => {
    const s = time(px);
    const i = bars ? p.at.findLastIndex((a) => a <= s) : p.at.reduce((best, a, k) => (Math.abs(a - s) < Math.abs(p.at[best] - s) ? k : best), 0);
    return Math.max(0, i);
  };
  const where = (e: PointerEvent) => e.clientX - (e.currentTarget as Element).getBoundingClientRect().left;
  const release = () => {
    if (drag && p.brush && Math.abs(drag[1] - drag[0]) > 5) p.brush(time(Math.min(...drag)), time(Math.max(...drag)));
    setDrag(null);
  };
  const key = (e: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (move) { e.preventDefault(); setAt(Math.min(n - 1, Math.max(0, (at ?? n) + move))); }
    if (e.key === "Escape") setAt(null);
  };
  const shown = at !== null && at < n ? at : n - 1;
  return (
    <>
      <svg width={p.width} height={height} class={p.brush ? "brushes" : ""} role="img" aria-label={p.label} tabIndex={0} onKeyDown={key} onBlur={() => setAt(null)}
        onPointerMove={(e) => { setAt(nearest(where(e))); if (drag) setDrag([drag[0], where(e)]); }} onPointerLeave={() => { if (!drag) setAt(null); }}
        onPointerDown={(e) => { if (p.brush && e.button === 0) { (e.currentTarget as Element).setPointerCapture(e.pointerId); setDrag([where(e), where(e)]); } }} onPointerUp={release} onPointerCancel={() => setDrag(null)}>
        {ticks.map((v) => <g key={v}><line class="grid-line" x1={left} x2={left + w} y1={y(v)} y2={y(v)} /><text class="tick-y" x={left - 7} y={y(v) + 4}>{p.say(v)}</text></g>)}
        {timeTicks(from, to, w).map((m) => <text class="tick-x" key={m.at} x={Math.min(x(m.at), p.width - 18)} y={height - 6}>{m.text}</text>)}
        {p.marks?.filter((m) => m.at >= from && m.at <= to).map((m) => <g class="event-mark" key={m.at + m.text}><line x1={x(m.at)} x2={x(m.at)} y1={above} y2={above + h} /><path d={`M${x(m.at) - 4} ${above - 8}h8l-4 7z`} /><title>{clock(m.at * 1000) + " " + plain(m.text)}</title></g>)}
        {drawn.map((c) => <CurveOf key={c.label} c={c} all={p.curves} at={p.at} x={x} y={y} wide={(w / (to - from)) * p.step} />)}
        {at !== null && at < n && <g class="cursor"><line x1={x(p.at[at])} x2={x(p.at[at])} y1={above} y2={above + h} />{drawn.map((c) => c.values[at] != null && !c.bars && <circle key={c.label} class={"c" + c.colour} cx={x(p.at[at])} cy={y(c.values[at]!)} r="3" />)}</g>}
        {drag && <rect class="brush" x={Math.min(...drag)} width={Math.abs(drag[1] - drag[0])} y={above} height={h} />}
      </svg>
      <div class="plot-legend"><span class="quiet at">{clock(p.at[shown] * 1000)}</span>{p.curves.map((c) => <span key={c.label}>{!c.told && <svg width="12" height="8" aria-hidden="true"><path class={"curve c" + c.colour + (c.dash ? " dash" : "") + (c.bars ? " wide" : "")} d="M0 4h12" /></svg>}{c.label} <b>{c.values[shown] == null ? "–" : p.say(c.values[shown]!)}</b></span>)}{p.twin}</div>
    </>
  );
}

type CurveProps = { c: Curve; all: Curve[]; at: number[]; x: (s: number) => number; y: (v: number) => number; wide: number };

function CurveOf({ c, all, at, x, y, wide }: CurveProps) {
  const r = (n: number) => n.toFixed(1);
  if (c.bars) return <g class={"bars c" + c.colour}>{at.map((s, i) => (c.values[i] ? <rect key={s} x={r(x(s) + 0.5)} y={r(y(c.values[i]!))} width={r(Math.max(1, wide - 1))} height={r(Math.max(1, y(0) - y(c.values[i]!)))} /> : null))}</g>;
  // Runs of values without a gap: where there is none, nothing is drawn.
  const runs: number[][] = [];
  at.forEach((_, i) => { if (c.values[i] != null) { if (i > 0 && c.values[i - 1] != null && runs.length) runs[runs.length - 1].push(i); else runs.push([i]); } });
  const line = (run: number[], of: Curve) => run.map((i) => r(x(at[i])) + " " + r(y(of.values[i] ?? 0))).join("L");
  const floor = c.band === undefined ? null : all[c.band];
  return (
    <>
      {(c.fill || floor) && runs.map((run) => <path key={"f" + run[0]} class={"area c" + c.colour} d={"M" + line(run, c) + "L" + (floor ? line([...run].reverse(), floor) : `${r(x(at[run[run.length - 1]]))} ${r(y(0))}L${r(x(at[run[0]]))} ${r(y(0))}`) + "Z"} />)}
      {runs.map((run) => (run.length === 1 ? <circle key={run[0]} class={"dot c" + c.colour} cx={r(x(at[run[0]]))} cy={r(y(c.values[run[0]]!))} r="2" /> : <path key={run[0]} class={"curve c" + c.colour + (c.dash ? " dash" : "")} d={"M" + line(run, c)} />))}
    </>
  );
}

function Twin(p: Props) {
  return (
    <div class="scroll twin-table" tabIndex={0} role="region" aria-label={p.label}>
      <table class="list"><caption class="sr">{p.label}</caption>
        <thead><tr><th scope="col">{t("time")}</th>{p.curves.map((c) => <th scope="col" class="num" key={c.label}>{c.label}</th>)}</tr></thead>
        <tbody>{p.at.map((at, i) => <tr key={at}><td data-head={t("time")}>{clock(at * 1000)}</td>{p.curves.map((c) => <td class="num" data-head={c.label} key={c.label}>{c.values[i] == null ? "–" : p.say(c.values[i]!)}</td>)}</tr>).reverse()}</tbody>
      </table>
      {p.marks && p.marks.length > 0 && <ul class="plain">{p.marks.map((m) => <li key={m.at + m.text}>{clock(m.at * 1000)} <T s={m.text} /></li>)}</ul>}
    </div>
  );
}

export const perSecond = (n: number) => number(n, n < 10 ? 2 : n < 100 ? 1 : 0);
