import { base } from "./api";
import { t } from "./i18n";
import { usePages } from "./load";
import { to } from "./route";
import { Filter, Table, matches } from "./table";
import { T, plain } from "./text";
import { Bar, Empty, Fault, Mark, N, Title } from "./ui";

export type Budget = { workers: number; exact: boolean; weakest: string[]; breaking: string[]; groups: string[]; text: string } | null;
export type Group = {
  name: string; title: string; owner: string; jobs: number; wanted: number; running: number; starting: number; failed: number; pending: number; moving: number; ending: number;
  supervisor: string; budget: Budget; replicas: number; selector: Record<string, string>; spread: string; paused: boolean; silence: string; job_silence: string;
  source: { kind: string; path?: string; url?: string; command?: string[]; every?: string }; policy: { moves_per_round: number; new_per_round: number; penalty: string; warmup: string };
  source_read: { error: string; good: string | null; pending: boolean; tried: string | null }; created: string | null;
};

export function GroupsScreen() {
  const list = usePages<Group>("v1/groups?limit=1000", 3000);
  const rows = (list.data ?? []).filter((g) => matches(g.name, g.title, g.owner));
  return (
    <>
      <Title>{t("jobs")}</Title>
      <Filter label={t("filterGroups")} />
      <Fault error={list.error} again={list.again} />
      {list.data === null ? !list.error && <div class="still" /> : list.data.length === 0 ? <Empty command={`rota group set feeds --server ${base.replace(/\/$/, "")} --replicas 2`}>{t("noGroups")}</Empty> : rows.length === 0 && !list.more ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("jobs")} rows={rows} id={(g) => g.name} sorts more={list.more} busy={list.reading} columns={[
        { key: "name", head: t("group"), grow: true, by: (g) => g.name, cell: (g) => <><a href={to(["jobs", g.name])}><T s={g.name} /></a> {g.paused && <Mark state="paused" />}{g.title && <div class="quiet"><T s={g.title} /></div>}</> },
        { key: "jobs", head: t("jobs"), num: true, by: (g) => g.jobs, cell: (g) => <N n={g.jobs} to={to(["jobs", g.name])} /> },
        { key: "share", head: t("runningOfWanted"), by: (g) => g.running / Math.max(1, g.wanted), cell: (g) => <Bar part={g.running} of={g.wanted} tone={g.pending ? "warn" : undefined} /> },
        { key: "pending", head: t("pending"), num: true, by: (g) => g.pending, cell: (g) => <N n={g.pending} tone="warn" to={to(["jobs", g.name], { state: "pending" })} /> },
        { key: "starting", head: t("starting"), num: true, by: (g) => g.starting, cell: (g) => <N n={g.starting} to={to(["jobs", g.name], { state: "starting" })} /> },
        { key: "moving", head: t("moving"), num: true, by: (g) => g.moving, cell: (g) => <N n={g.moving} to={to(["jobs", g.name], { state: "moving" })} /> },
        { key: "failed", head: t("failedWord"), num: true, by: (g) => g.failed, cell: (g) => <N n={g.failed} tone="bad" to={to(["jobs", g.name], { state: "failed" })} /> },
        { key: "budget", head: t("budgetWorkers"), num: true, by: (g) => g.budget?.workers ?? -1, cell: (g) => (g.budget ? <span title={plain(g.budget.text)}>{g.budget.exact ? "" : "≥ "}<N n={g.budget.workers} to={to(["jobs", g.name])} /></span> : <span class="quiet">–</span>) },
        { key: "supervisor", head: t("supervisor"), cell: (g) => (g.supervisor ? <T s={g.supervisor} /> : <Mark state="offline" bare />) },
      ]} />}
    </>
  );
}
