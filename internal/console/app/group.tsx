import { useState } from "preact/hooks";
import { call, part, query, send, may } from "./api";
import { GroupForecast } from "./forecast";
import { number, t } from "./i18n";
import { readAll, useLoad, usePages, type Page } from "./load";
import type { Budget, Group } from "./groups";
import { Picture, type Placed } from "./picture";
import { go, route, setQuery, to } from "./route";
import { Table } from "./table";
import { Log } from "./task";
import { T } from "./text";
import { Dur, When } from "./time";
import { Act, Bar, Dialog, Facts, Fault, Mark, N, Panel, Title } from "./ui";
import { WhatIf } from "./whatif";
import { Labels, type Worker } from "./workers";

export function GroupScreen({ name }: { name: string }) {
  const path = "v1/groups/" + part(name);
  const group = useLoad<Group>(path, 2000);
  const placed = useLoad<{ items: Placed[]; more: boolean }>(path + "/assignments?limit=1000", 3000, readAll);
  const jobs = useLoad<{ items: { job: string; load: number }[]; more: boolean }>(path + "/jobs?limit=1000", 15_000, readAll);
  const workers = useLoad<Page<Worker>>("v1/workers?limit=1000", 3000);
  const [what, setWhat] = useState(false);
  const open = route.value.query.get("explain");
  const g = group.data;
  const again = () => { group.again(); placed.again(); };
  const loads = new Map((jobs.data?.items ?? []).map((j) => [j.job, j.load]));
  const here = workers.data?.items.filter((w) => w.state !== "left" && placed.data?.items.some((p) => p.worker === w.name) || w.state === "active" && serves(w, g)) ?? [];
  return (
    <>
      <Title crumbs={[[t("jobs"), "#/jobs"]]} sub={g?.title ? <T s={g.title} /> : undefined} side={g && <>
        {g.paused ? <Act label={t("resume")} kind="main" does={() => send("POST", path + "/resume")} after={again} /> : <Act label={t("pause")} does={() => send("POST", path + "/pause")} after={again} ask={t("pauseGroup")} />}
        <button type="button" aria-pressed={what} onClick={() => setWhat(!what)}>{t("whatIf")}</button>
        <Act label={t("rebalance")} does={() => send("POST", path + "/rebalance")} after={again} ask={t("rebalanceAsk", { n: number(g.policy.moves_per_round) })} />
        {g.source.kind !== "api" && <Act label={t("refresh")} does={() => send("POST", path + "/refresh")} after={again} />}
        <Act label={t("remove")} kind="bad" need="destroy" does={() => call("DELETE", path, { need: "destroy" })} after={() => go(["jobs"])} ask={t("removeGroup")} />
      </>}><T s={name} /> {g?.paused && <Mark state="paused" />}</Title>
      <Fault error={group.error} again={group.again} />
      {g && <>
        <div class="tiles small">
          {(["wanted", "running", "starting", "pending", "moving", "ending", "failed"] as const).map((k) => (
            <a key={k} class={"tile" + (k === "pending" && g.pending ? " warn" : k === "failed" && g.failed ? " bad" : "")} href={to(["jobs", name], { state: k === "wanted" ? "" : k })}><span class="tile-label">{t(k === "failed" ? "failedWord" : k)}</span><span class="tile-value">{number(g[k])}</span></a>
          ))}
        </div>
        {g.source_read.error && <div class="fault" role="alert"><strong>{t("sourceFails")}</strong> <T s={g.source_read.error} /></div>}
        {what && <WhatIf path={path} workers={here} />}
        <Panel title={t("placement")}>
          <Fault error={placed.error ?? workers.error} />
          {workers.data?.next && <p class="quiet pad">{t("firstOnly", { n: number(workers.data.items.length) })}</p>}
          {placed.data && workers.data && <Picture placed={placed.data.items} more={placed.data.more} workers={here} loads={loads} open={(job) => setQuery({ explain: job })} />}
        </Panel>
        <Replicas path={path} />
        <GroupForecast name={name} />
        <div class="two">
          <Panel title={t("settings")}><Facts of={[
            [t("owner"), g.owner && <T s={g.owner} />], [t("replicas"), <N n={g.replicas} />], [t("spread"), t(g.spread === "zone" ? "spreadZone" : "spreadWorker")],
            [t("selector"), Object.keys(g.selector).length ? <Labels of={g.selector} /> : null], [t("source"), <T s={[g.source.kind, g.source.path, g.source.url, g.source.command?.join(" ")].filter(Boolean).join(" ")} />],
            [t("sourceRead"), g.source_read.good ? <When at={g.source_read.good} /> : null], [t("movesPerRound"), <N n={g.policy.moves_per_round} />], [t("newPerRound"), <N n={g.policy.new_per_round} />],
            [t("penalty"), <Dur d={g.policy.penalty} />], [t("warmup"), <Dur d={g.policy.warmup} />], [t("silence"), <Dur d={g.silence} />], [t("jobSilence"), g.job_silence !== "0s" ? <Dur d={g.job_silence} /> : null],
            [t("supervisor"), g.supervisor ? <T s={g.supervisor} /> : t("noneNow")], [t("created"), <When at={g.created} />],
          ]} /></Panel>
          <Panel title={t("budget")}><BudgetText b={g.budget} /></Panel>
        </div>
      </>}
      {open && <ExplainJob path={path} job={open} close={() => setQuery({ explain: null })} />}
    </>
  );
}

// serves tells whether a worker may get replicas of the group, as far as its labels say.
const serves = (w: Worker, g: Group | null) => g !== null && w.jobs >= 0 && Object.entries(g.selector).every(([k, v]) => w.labels[k] === v) && (w.jobs > 0 || w.queues.length === 0);

export function BudgetText({ b }: { b: Budget }) {
  if (!b) return <p class="pad quiet">{t("unknownBudget")}</p>;
  return <><p class="pad"><T s={b.text} /></p><Facts of={[[t("budgetWorkers"), <>{b.exact ? "" : "≥ "}{number(b.workers)}</>], [t("weakest"), b.weakest.length ? <T s={b.weakest.join(", ")} /> : null], [t("breaking"), b.breaking.length ? <T s={b.breaking.join(", ")} /> : null]]} /></>;
}

function Replicas({ path }: { path: string }) {
  const state = route.value.query.get("state") ?? "", job = route.value.query.get("job") ?? "";
  const list = usePages<Placed>(path + "/assignments" + query({ state, job, limit: 100 }), 3000);
  return (
    <Panel title={state === "pending" ? t("pendingWhy") : t("replicas")} side={<nav class="tabs" aria-label={t("states")}>
      {["", "pending", "starting", "running", "failed", "moving", "ending"].map((s) => <a key={s} href={"#"} onClick={(e) => { e.preventDefault(); setQuery({ state: s }); }} aria-current={s === state ? "true" : undefined}>{s ? <Mark state={s} /> : t("all")}</a>)}
    </nav>}>
      <Fault error={list.error} />
      {list.data && (list.data.length === 0 && !list.more ? <p class="pad quiet">{t("noReplicas")}</p> : <Table caption={t("replicas")} rows={list.data} id={(p) => p.job + " " + p.replica + " " + p.worker} more={list.more} busy={list.reading} columns={[
        { key: "job", head: t("job"), grow: true, cell: (p) => <button type="button" class="link" onClick={() => setQuery({ explain: p.job })}><T s={p.job} /></button> },
        { key: "replica", head: t("replica"), num: true, cell: (p) => number(p.replica) },
        { key: "state", head: t("state"), cell: (p) => <Mark state={p.state} /> },
        { key: "worker", head: t("worker"), cell: (p) => (p.worker ? <a href={to(["workers"], { open: p.worker })}><T s={p.worker} /></a> : <span class="quiet">–</span>) },
        { key: "since", head: t("since"), cell: (p) => <When at={p.since} /> },
        { key: "reason", head: t("why"), grow: true, cell: (p) => (p.reason ? <T s={p.reason} /> : "") },
      ]} />)}
    </Panel>
  );
}

type Explained = { replicas: Placed[]; candidates: { worker: string; fits: boolean; score: number; free: number; capacity: number; reason?: string }[]; workers: number; changes: string[] };

function ExplainJob({ path, job, close }: { path: string; job: string; close: () => void }) {
  const at = path + "/jobs/" + part(job);
  const why = useLoad<Explained>(at + "/explain", 5000);
  const x = why.data;
  return (
    <Dialog title={t("whyHere", { job })} close={close} wide>
      <Fault error={why.error} />
      {x && <>
        {x.changes.length > 0 && <ul class="reasons">{x.changes.map((c) => <li key={c}><T s={c} /></li>)}</ul>}
        <Table caption={t("replicas")} rows={x.replicas} id={(p) => p.replica + p.worker} columns={[
          { key: "n", head: t("replica"), num: true, cell: (p) => number(p.replica) }, { key: "state", head: t("state"), cell: (p) => <Mark state={p.state} /> },
          { key: "w", head: t("worker"), cell: (p) => (p.worker ? <T s={p.worker} /> : "–") }, { key: "why", head: t("why"), grow: true, cell: (p) => (p.reason ? <T s={p.reason} /> : "") },
        ]} />
        <h3>{t("candidates", { n: number(x.workers) })}</h3>
        <Table caption={t("candidates", { n: number(x.workers) })} rows={x.candidates} id={(c) => c.worker} columns={[
          { key: "w", head: t("worker"), cell: (c) => <T s={c.worker} /> }, { key: "fits", head: t("fits"), cell: (c) => <Mark state={c.fits ? "done" : "cancelled"} bare /> },
          { key: "free", head: t("free"), cell: (c) => <Bar part={c.free} of={c.capacity} /> }, { key: "score", head: t("score"), num: true, cell: (c) => number(c.score, 3) },
          { key: "why", head: t("why"), grow: true, cell: (c) => (c.reason ? <T s={c.reason} /> : "") },
        ]} />
      </>}
      <Log path={at + "/logs"} />
      <div class="row end">
        {may("operate") && <Act label={t("removeJob")} kind="bad" does={() => send("DELETE", at)} after={close} ask={t("removeJobAsk")} />}
        <button type="button" onClick={close}>{t("close")}</button>
      </div>
    </Dialog>
  );
}
