// The placement picture: each worker a bar to its capacity, its replicas in it, a line at the limit.
import { useState } from "preact/hooks";
import { number, t } from "./i18n";
import { to } from "./route";
import { T, plain } from "./text";
import { Mark } from "./ui";
import { Table } from "./table";
import type { Worker } from "./workers";

export type Placed = { job: string; replica: number; worker: string; state: string; since: string | null; reason?: string; code?: string };

type Props = { placed: Placed[]; more: boolean; workers: Worker[]; loads: Map<string, number>; open: (job: string) => void };

export function Picture({ placed, more, workers, loads, open }: Props) {
  const [table, setTable] = useState(false);
  const by = new Map<string, Placed[]>();
  for (const p of placed) if (p.worker) by.set(p.worker, [...(by.get(p.worker) ?? []), p]);
  const top = Math.max(1, ...workers.map((w) => w.capacity));
  const load = (p: Placed) => loads.get(p.job) ?? 1;
  const sum = (w: string) => (by.get(w) ?? []).reduce((n, p) => n + load(p), 0);
  if (workers.length === 0) return <p class="pad quiet">{t("noWorkersForGroup")}</p>;
  return (
    <div class="picture">
      <div class="row spread"><Legend /><button type="button" class="small" aria-pressed={table} onClick={() => setTable(!table)}>{table ? t("asPlot") : t("asTable")}</button></div>
      {table ? <Table caption={t("placement")} rows={workers} id={(w) => w.name} columns={[
        { key: "w", head: t("worker"), cell: (w) => <T s={w.name} /> }, { key: "cap", head: t("capacity"), num: true, cell: (w) => number(w.capacity) },
        { key: "load", head: t("loadHere"), num: true, cell: (w) => number(sum(w.name), 3) }, { key: "tasks", head: t("tasks"), num: true, cell: (w) => number(w.running_tasks) },
        { key: "jobs", head: t("replicas"), grow: true, cell: (w) => (by.get(w.name) ?? []).slice(0, 50).map((p) => <button type="button" class="link" key={p.job + p.replica} onClick={() => open(p.job)}><T s={p.job + "/" + p.replica} /> </button>) },
      ]} /> : workers.map((w) => {
        let x = 0;
        const scale = 1000 / top;
        const mine = (by.get(w.name) ?? []).map((p) => { const at = x; x += Math.max(load(p), top / 400); return { p, at: at * scale, width: Math.max(load(p), top / 400) * scale }; });
        return (
          <div class="worker-bar" key={w.name}>
            <span class="worker-name"><Mark state={w.state} bare /> <a href={to(["workers"], { open: w.name })}><T s={w.name} /></a>{w.zone && <span class="quiet"> <T s={w.zone} /></span>}</span>
            <svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={plain(w.name) + ": " + number(mine.length) + " " + t("replicas")}>
              <rect class="track" width={w.capacity * scale} height="20" />
              {mine.map(({ p, at, width }) => <rect key={p.job + " " + p.replica} class={"rep o-" + p.state} x={at} y="2" width={Math.max(1, width - 1.5)} height="16" onClick={() => open(p.job)}><title>{plain(p.job) + " / " + p.replica + " · " + p.state}</title></rect>)}
              {w.running_tasks > 0 && <rect class="tasks" x={x * scale} y="6" width={Math.max(0, Math.min(w.running_tasks, w.capacity - x) * scale)} height="8"><title>{number(w.running_tasks) + " " + t("tasks")}</title></rect>}
              <line class="limit" x1={w.capacity * scale - 1} x2={w.capacity * scale - 1} y1="0" y2="20" />
            </svg>
            <span class="n">{number(sum(w.name), 2)} / {number(w.capacity)}</span>
          </div>
        );
      })}
      {more && <p class="quiet pad">{t("pictureCut", { n: number(placed.length) })}</p>}
    </div>
  );
}

function Legend() {
  return <div class="legend">{["running", "starting", "moving", "ending", "failed"].map((s) => <span key={s}><svg width="10" height="10" aria-hidden="true"><rect class={"rep o-" + s} width="10" height="10" /></svg> <Mark state={s} /></span>)}</div>;
}
