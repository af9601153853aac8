// Overview first: what waits for longest, what runs, what died, and whether the machine park holds.
import { useMemo, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { shortages, useForecast } from "./forecast";
import { AlarmLine } from "./alarms";
import { number, t } from "./i18n";
import { link, overview, rate, rates, trouble, type Overview } from "./live";
import { readAll, useShared } from "./load";
import { perSecond } from "./plot";
import { to } from "./route";
import { Band, SpanChoice, Throughput, spans, span, useStats } from "./stats";
import { Table } from "./table";
import { T, plain } from "./text";
import { duration, millis, now } from "./time";
import { Empty, Fault, Mark, N, Panel, Spark, Title, type Tone } from "./ui";
import { Problem, base } from "./api";
import type { EventItem } from "./events";
import type { QueueLine } from "./live";

function Tile({ label, href, children, sub, tone, twice }: { label: string; href: string; children: ComponentChildren; sub?: ComponentChildren; tone?: Tone; twice?: boolean }) {
  return <a class={"tile " + (tone ?? "") + (twice ? " twice" : "")} href={href}><span class="tile-label">{label}</span><span class="tile-value">{children}</span><span class="tile-sub">{sub ?? "\u00a0"}</span></a>;
}

function Tiles({ o }: { o: Overview }) {
  const old = o.oldest_ready, age = old ? millis(old.age) : 0;
  const stale = millis(o.age);
  const up = o.nodes.filter((n) => n.state === "working").length;
  const broken = o.nodes.filter((n) => n.state === "unreachable" || n.state === "offline").length;
  const workers = o.workers.active + o.workers.draining + o.workers.silent;
  const started = rate((s) => s.totals.started), done = rate((s) => s.totals.done);
  return (
    <>{stale > 0 && <p class="warn-text" role="status">{t("stale", { d: duration(stale) })}</p>}
    <AlarmLine />
    <div class="tiles">
      <Tile twice label={t("oldestWaiting")} href={old ? to(["queues", old.queue]) : "#/queues"} tone={age > 600_000 ? "bad" : age > 60_000 ? "warn" : undefined}
        sub={old ? <T s={old.queue} /> : t("nothingWaits")}>{old ? duration(Math.floor(age / 1000) * 1000) : "–"}</Tile>
      <Tile label={t("ready")} href="#/tasks?state=ready" sub={<>{number(o.waiting)} {t("dueLater")}{o.blocked > 0 && <> · {number(o.blocked)} {t("blocked")}</>}</>}>{number(o.ready)}</Tile>
      <Tile label={t("running")} href="#/tasks?state=running" sub={<>{t("ofCapacity", { n: number(o.capacity) })} · {number(workers)} {t("workersWord")}</>}>{number(o.running)}</Tile>
      <Tile label={t("throughputNow")} href="#/tasks?state=done" sub={started === null ? "" : perSecond(started) + "/s " + t("startedWord")}>{done === null ? "–" : perSecond(done) + "/s"}</Tile>
      <Tile label={t("deadHour")} href="#/tasks?state=dead" tone={o.dead_hour > 0 ? "bad" : undefined} sub={t("ofTasks")}>{number(o.dead_hour)}</Tile>
      <Wanted />
      <Tile label={t("nodes")} href="#/nodes" tone={broken ? "bad" : undefined} sub={broken ? t("nDown", { n: broken }) : t("allWork")}>{number(up)}</Tile>
      <Tile label={t("schedulesLate")} href="#/schedules" tone={o.schedules.late ? "bad" : undefined} sub={t("ofN", { n: number(o.schedules.total) })}>{number(o.schedules.late)}</Tile>
      <Tile label={t("jobsPending")} href="#/jobs" tone={o.jobs.pending ? "warn" : undefined} sub={t("runOf", { n: number(o.jobs.running), m: number(o.jobs.wanted) })}>{number(o.jobs.pending)}</Tile>
      <Tile label={t("budget")} href="#/nodes" tone={o.budget === 0 && o.nodes.length > 1 ? "warn" : undefined} sub={t("budgetSub")}>{o.budget === null || o.budget === undefined ? "–" : number(o.budget)}</Tile>
    </div></>
  );
}

// Wanted says who needs more workers, those that need the most first.
function Wanted() {
  const forecast = useForecast("").data;
  const short = forecast && shortages(forecast);
  return <Tile twice label={t("workersShort")} href="#/forecast" tone={short?.length ? "warn" : undefined}
    sub={short && (short.length === 0 ? t("allHaveEnough") : short.slice(0, 3).map((n, i) => <>{i > 0 && " · "}<T s={n.name} /> {n.words}</>))}>{short ? number(short.length) : "–"}</Tile>;
}

function Fleet({ o }: { o: Overview }) {
  const [table, setTable] = useState(false);
  const by = useMemo(() => {
    const m = new Map<string, Overview["fleet"]>();
    for (const n of o.nodes) if (n.state !== "left") m.set(n.name, []);
    for (const w of o.fleet) m.set(w.node, [...(m.get(w.node) ?? []), w]);
    return [...m];
  }, [o.nodes, o.fleet]);
  return (
    <Panel title={t("fleet")} side={<button type="button" class="small" aria-pressed={table} onClick={() => setTable(!table)}>{table ? t("asPlot") : t("asTable")}</button>}>
      {table ? <FleetTable o={o} /> : <div class="fleet">{by.map(([node, workers]) => {
        const known = o.nodes.find((n) => n.name === node);
        return (
          <div class="fleet-node" key={node}>
            <a href="#/nodes" class="fleet-name"><Mark state={known?.state ?? "offline"} bare /><T s={node} />{known && <span class="quiet"> {number(known.score, 0)}</span>}</a>
            <div class="cells">{workers.length === 0 ? <span class="quiet">{t("noWorkersHere")}</span> : workers.map((w) => <Cell key={w.worker} w={w} />)}</div>
          </div>
        );
      })}</div>}
      <div class="legend quiet"><span class="ramp" aria-hidden="true"><i /><i /><i /><i /><i /></span> {t("fleetLegend")}{o.fleet_left_out ? " · " + t("leftOut", { n: number(o.fleet_left_out) }) : ""}</div>
    </Panel>
  );
}

// A cell's side grows with the root of its capacity, so that its area stands for it.
function Cell({ w }: { w: Overview["fleet"][number] }) {
  const carries = w.running + w.jobs, share = w.capacity > 0 ? carries / w.capacity : 0;
  const level = w.state !== "active" ? "off" : "l" + Math.min(4, carries === 0 ? 0 : 1 + Math.floor(share * 3.99 * 0.99));
  const side = Math.round(Math.min(34, Math.max(10, 7 + 3 * Math.sqrt(w.capacity))));
  const text = plain(w.worker) + ": " + number(w.running) + " " + t("tasks") + (w.jobs ? ", " + number(w.jobs) + " " + t("replicas") : "") + " / " + number(w.capacity) + (w.state === "active" ? "" : " " + w.state);
  return <a href={to(["workers"], { q: w.worker })} class={"cell " + level} title={text} aria-label={text} style={{ width: side + "px", height: side + "px" }} />;
}

function FleetTable({ o }: { o: Overview }) {
  return <Table caption={t("fleet")} rows={o.fleet} id={(w) => w.worker} sorts columns={[
    { key: "worker", head: t("worker"), cell: (w) => <a href={to(["workers"], { q: w.worker })}><T s={w.worker} /></a>, by: (w) => w.worker, grow: true },
    { key: "node", head: t("node"), cell: (w) => <T s={w.node} />, by: (w) => w.node },
    { key: "state", head: t("state"), cell: (w) => <Mark state={w.state} />, by: (w) => w.state },
    { key: "running", head: t("running"), num: true, cell: (w) => <N n={w.running} to={to(["tasks"], { state: "running", worker: w.worker })} />, by: (w) => w.running },
    { key: "jobs", head: t("jobs"), num: true, cell: (w) => <N n={w.jobs} to="#/jobs" />, by: (w) => w.jobs },
    { key: "capacity", head: t("capacity"), num: true, cell: (w) => <N n={w.capacity} />, by: (w) => w.capacity },
  ]} />;
}

function QueueLines({ o }: { o: Overview }) {
  const r = (q: string, f: (l: QueueLine) => number) => rate((s) => { const l = s.queues.get(q); return l && f(l); });
  return <Table caption={t("queues")} rows={o.queues} id={(q) => q.queue} sorts columns={[
    { key: "queue", head: t("queue"), grow: true, by: (q) => q.queue, cell: (q) => <><a href={to(["queues", q.queue])}><T s={q.queue} /></a> {q.paused ? <Mark state="paused" /> : q.limited && <Mark state="limited" />}</> },
    { key: "oldest", head: t("oldestReady"), num: true, by: (q) => millis(q.oldest_ready), cell: (q) => (q.oldest_ready ? <a href={to(["tasks"], { queue: q.queue, state: "ready" })} class={millis(q.oldest_ready) > 600_000 ? "n bad" : "n"}>{duration(Math.floor(millis(q.oldest_ready) / 1000) * 1000)}</a> : <span class="quiet">–</span>) },
    { key: "ready", head: t("ready"), num: true, by: (q) => q.ready, cell: (q) => <N n={q.ready} to={to(["tasks"], { queue: q.queue, state: "ready" })} /> },
    { key: "waiting", head: t("waiting"), num: true, by: (q) => q.waiting, cell: (q) => <N n={q.waiting} to={to(["tasks"], { queue: q.queue, state: "waiting" })} /> },
    { key: "running", head: t("running"), num: true, by: (q) => q.running, cell: (q) => <N n={q.running} to={to(["tasks"], { queue: q.queue, state: "running" })} /> },
    { key: "in", head: t("inRate"), num: true, cell: (q) => <Rate n={r(q.queue, (l) => l.submitted)} /> },
    { key: "out", head: t("outRate"), num: true, cell: (q) => <Rate n={r(q.queue, (l) => l.done)} /> },
    { key: "curve", head: t("lastMinutes"), cell: (q) => <Spark label={t("doneCurve")} values={rates((s) => s.queues.get(q.queue)?.done)} /> },
  ]} />;
}

export function Rate({ n }: { n: number | null }) {
  return n === null ? <span class="quiet">–</span> : <span class={n === 0 ? "n zero" : "n"}>{perSecond(n)}/s</span>;
}

export const firstTask = () => `rota submit hello --server ${base.replace(/\/$/, "")} --context '{"name":"world"}'`;

// The events that are marked on the throughput, the newest of them.
const markKinds = "node.*,worker.dead,workers.silent,queue.unserved,budget.*,store.full,audit.queue.pause,audit.queue.resume";
const markLimit = 100;

export function OverviewScreen() {
  const o = overview.value;
  const stats = useStats({});
  const [length] = spans[span()];
  const marks = useShared("v1/events?limit=1000&kind=" + encodeURIComponent(markKinds) + "#" + span(), 30_000,
    (p, signal) => readAll<EventItem>(p.split("#")[0] + "&since=" + encodeURIComponent(new Date(now.peek() - length).toISOString()), signal));
  const list = useMemo(() => (marks.data?.items ?? []).slice(-markLimit).map((e) => ({ at: Date.parse(e.time) / 1000, text: e.kind + " " + e.subject + ": " + e.text })), [marks.data]);
  if (!o) {
    return <><Title>{t("overview")}</Title>{link.value === "missing" ? <Fault error={new Problem(403, trouble.value || t("noOverview"))} />
      : link.value === "broken" ? <Fault error={new Problem(0, "")} /> : <div class="tiles still" aria-busy="true">{Array.from({ length: 10 }, (_, i) => <div class={i % 5 ? "tile" : "tile twice"} key={i} />)}</div>}</>;
  }
  return (
    <>
      <Title>{t("overview")}</Title>
      <Tiles o={o} />
      <div class="two">
        <Panel title={t("throughput")} side={<SpanChoice />}><Throughput stats={stats} step={stats.step} marks={list} /></Panel>
        <Panel title={t("waitTime")}><Band stats={stats} step={stats.step} of="wait" /></Panel>
      </div>
      <Fleet o={o} />
      <Panel title={t("queues")} side={o.queues_left_out ? <a href="#/queues">{t("leftOut", { n: number(o.queues_left_out) })}</a> : <a href="#/queues">{t("all")}</a>}>
        {o.queues.length ? <QueueLines o={o} /> : <Empty command={firstTask()}>{t("noQueues")}</Empty>}
      </Panel>
    </>
  );
}
