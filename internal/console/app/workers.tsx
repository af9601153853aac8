import { useState } from "preact/hooks";
import { base, may, part, Problem, query, send } from "./api";
import { DrainForm } from "./drain";
import { number, t } from "./i18n";
import { useLoad, type Page } from "./load";
import { go, route, setQuery, to } from "./route";
import { WorkerHistory } from "./stats";
import { Filter, Table, matches } from "./table";
import { columns, type TaskItem } from "./tasks";
import { T } from "./text";
import { When } from "./time";
import { Act, Bar, Dialog, Empty, Facts, Fault, Mark, N, Title } from "./ui";

export type Worker = {
  name: string; node: string; state: string; active: boolean; draining: boolean; shed?: number; version?: string; drain_by?: string; capacity: number; used: number; load: { cpu: number; memory: number };
  labels: Record<string, string>; zone: string; running_tasks: number; free: number; queues: string[]; jobs: number; seen: string | null;
};

export const Labels = ({ of }: { of: Record<string, string> }) => <>{Object.entries(of).map(([k, v]) => <span class="label" key={k}><T s={k + (v ? "=" + v : "")} /></span>)}</>;

export function WorkersScreen() {
  const list = useLoad<{ items: Worker[]; missing?: string[]; next: string }>("v1/workers?limit=1000", 2000);
  const states = route.value.query.get("state") ?? "";
  const open = route.value.query.get("open");
  const all = list.data?.items ?? [];
  const cut = list.data?.next ? "+" : "";
  const rows = all.filter((w) => (!states || w.state === states) && matches(w.name, w.node, w.zone, w.state, ...w.queues, ...Object.entries(w.labels).map((l) => l.join("="))));
  const listed = open ? all.find((w) => w.name === open) : undefined;
  // The list has a bound: one that is not in it is asked for by itself.
  const one = useLoad<Worker>(open && list.data && !listed ? "v1/workers/" + part(open) : null, 5000);
  const shown = listed ?? (open ? one.data : undefined);
  return (
    <>
      <Title side={<a href="#/forecast">{t("howManyWanted")}</a>}>{t("workers")}</Title>
      <Filter label={t("filterWorkers")} />
      <nav class="tabs" aria-label={t("states")}>{["", "active", "draining", "silent", "left"].map((s) => <a key={s} href={to(["workers"], { q: route.value.query.get("q"), state: s })} aria-current={s === states ? "true" : undefined}>{s ? <Mark state={s} /> : t("all")} <span class="count">{number(s ? all.filter((w) => w.state === s).length : all.length)}{cut}</span></a>)}</nav>
      <Fault error={list.error} again={list.again} />
      {list.data?.missing?.length ? <p class="warn-text">{t("missingNodes")} <T s={list.data.missing.join(", ")} /></p> : null}
      {cut && <p class="quiet">{t("firstOnly", { n: number(all.length) })}</p>}
      {list.data && (all.length === 0 ? <Empty command={`rota worker --server ${base.replace(/\/$/, "")} --queue hello -- cat`}>{t("noWorkers")}</Empty> : rows.length === 0 ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("workers")} rows={rows} id={(w) => w.name + " " + w.node} sorts columns={[
        { key: "name", head: t("worker"), grow: true, by: (w) => w.name, cell: (w) => <a href={to(["workers"], { ...Object.fromEntries(route.value.query), open: w.name })}><T s={w.name} /></a> },
        { key: "state", head: t("state"), by: (w) => w.state, cell: (w) => <Mark state={w.state} /> },
        { key: "load", head: t("capacity"), by: (w) => w.used / Math.max(1, w.capacity), cell: (w) => <Bar part={w.used} of={w.capacity} /> },
        { key: "tasks", head: t("tasks"), num: true, by: (w) => w.running_tasks, cell: (w) => <N n={w.running_tasks} to={to(["tasks"], { state: "running", worker: w.name })} /> },
        { key: "jobs", head: t("jobs"), num: true, by: (w) => w.jobs, cell: (w) => <N n={w.jobs} to="#/jobs" /> },
        { key: "cpu", head: "CPU", num: true, by: (w) => w.load.cpu, cell: (w) => number(w.load.cpu * 100, 0) + " %" },
        { key: "memory", head: t("memory"), num: true, by: (w) => w.load.memory, cell: (w) => number(w.load.memory * 100, 0) + " %" },
        { key: "queues", head: t("queues"), cell: (w) => w.queues.slice(0, 4).map((q) => <a key={q} href={to(["queues", q])}><T s={q} /> </a>).concat(w.queues.length > 4 ? [<span class="quiet">+{w.queues.length - 4}</span>] : []) },
        { key: "zone", head: t("zone"), by: (w) => w.zone, cell: (w) => <>{w.zone && <T s={w.zone} />} <Labels of={w.labels} /></> },
        ...(all.some((w) => w.version) ? [{ key: "version", head: t("version"), by: (w: Worker) => w.version ?? "", cell: (w: Worker) => w.version ? <T s={w.version} /> : "–" }] : []),
        { key: "node", head: t("node"), by: (w) => w.node, cell: (w) => <T s={w.node} /> },
        { key: "seen", head: t("lastSign"), by: (w) => w.seen ?? "", cell: (w) => <When at={w.seen} /> },
      ]} />)}
      {shown && <WorkerDialog w={shown} again={list.again} close={() => setQuery({ open: null })} />}
      {open && !shown && one.error ? <Gone name={open} error={one.error} close={() => setQuery({ open: null })} /> : null}
    </>
  );
}

// Gone shows a worker that no node knows any more: its past is kept.
function Gone({ name, error, close }: { name: string; error: unknown; close: () => void }) {
  const gone = error instanceof Problem && error.status === 404;
  return (
    <Dialog title={name} close={close} wide>
      {gone ? <><p role="status">{t("workerGone")} <a href={to(["events"], { kind: "worker.*,audit.worker.*", q: name, span: "7d" })}>{t("events")}</a></p><WorkerHistory name={name} /></> : <Fault error={error} />}
      <div class="row end"><button type="button" onClick={close}>{t("close")}</button></div>
    </Dialog>
  );
}

function WorkerDialog({ w, again, close }: { w: Worker; again: () => void; close: () => void }) {
  const tasks = useLoad<Page<TaskItem>>("v1/tasks" + query({ state: "running", worker: w.name, limit: 50 }), 2000);
  const path = "v1/workers/" + part(w.name);
  const [held, setHeld] = useState<number | null>(null);
  const [asks, setAsks] = useState(false);
  const left = tasks.data?.items.length ?? w.running_tasks;
  return (
    <Dialog title={w.name} close={close} wide>
      <div class="row spread"><Mark state={w.state} /><span class="quiet">{t("lastSign")} <When at={w.seen} /></span></div>
      <Facts of={[
        [t("node"), <T s={w.node} />], [t("zone"), w.zone && <T s={w.zone} />], [t("version"), w.version && <T s={w.version} />], [t("labels"), Object.keys(w.labels).length ? <Labels of={w.labels} /> : null],
        [t("capacity"), <Bar part={w.used} of={w.capacity} />], [t("queues"), w.queues.length ? w.queues.map((q) => <a key={q} href={to(["queues", q])}><T s={q} /> </a>) : null],
        [t("jobs"), w.jobs ? <N n={w.jobs} to="#/jobs" /> : null],
      ]} />
      {w.shed ? <p role="status">{t("drainSheds", { n: number(w.shed, 3) })}</p> : null}
      {w.drain_by && <p>{t("drainBy")} <When at={w.drain_by} /></p>}
      {w.draining && <p role="status">{t("drainLeft", { n: number(left), m: number(w.jobs) })} {held !== null && held > 0 && <progress max={held} value={Math.max(0, held - left - w.jobs)} aria-label={t("drain")} />}</p>}
      <Fault error={tasks.error} />
      {tasks.data && (tasks.data.items.length ? <Table caption={t("running")} rows={tasks.data.items} id={(x) => x.id} columns={columns().filter((c) => ["id", "queue", "stage", "progress"].includes(c.key))} /> : <p class="quiet">{t("runsNothing")}</p>)}
      {asks && !w.draining && !w.shed && <DrainForm name={w.name} done={(left) => { setHeld(left); setAsks(false); again(); }} />}
      <WorkerHistory name={w.name} />
      <div class="row end">
        {w.draining || w.shed ? <Act label={t("undrain")} does={() => send("POST", path + "/undrain")} after={again} />
          : may("operate") && <button type="button" aria-expanded={asks} onClick={() => setAsks(!asks)}>{t("drain")}</button>}
        <Act label={t("remove")} kind="bad" does={() => send("DELETE", path)} after={() => { again(); go(["workers"]); }} ask={t("removeWorker")} />
        <button type="button" onClick={close}>{t("close")}</button>
      </div>
    </Dialog>
  );
}
