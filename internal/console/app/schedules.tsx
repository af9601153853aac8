import { useState } from "preact/hooks";
import { base } from "./api";
import { known, number, t } from "./i18n";
import { overview } from "./live";
import { usePages } from "./load";
import { to } from "./route";
import { Filter, Table, matches } from "./table";
import { T } from "./text";
import { When } from "./time";
import { Empty, Fault, Mark, Panel, Title } from "./ui";
import { Follows } from "./follows";

export type Schedule = {
  name: string; title: string; responsible: string; cron: string; zone: string; after: string | string[] | null; after_mode: string; after_on: string; after_delay: string; manual: boolean;
  queue: string; stage: string; overlap: string; parallel: number; misfire: string; misfire_window: string; on_dead: string; jitter: unknown; calendar: string; paused: boolean;
  starts: string | null; ends: string | null; next: string | null; next_chosen: boolean; last: string | null; last_outcome: string; last_task: string; owner: string; priority: string; version: number; created: string | null;
};

export const afterOf = (s: Schedule): string[] => (Array.isArray(s.after) ? s.after : s.after ? [s.after] : []);

export function DueRule({ s }: { s: Schedule }) {
  if (s.manual) return <span class="quiet">{t("manualOnly")}</span>;
  const after = afterOf(s);
  if (after.length) return <span>{t("follows")} {after.map((a, i) => <>{i > 0 && ", "}<a href={to(["schedules", a])}><T s={a} /></a></>)}</span>;
  return <code><T s={s.cron} /></code>;
}

export function SchedulesScreen() {
  const list = usePages<Schedule>("v1/schedules?limit=500", 5000);
  const [drawn, setDrawn] = useState(false);
  const rows = (list.data ?? []).filter((s) => matches(s.name, s.title, s.queue, s.responsible, s.cron));
  const linked = (list.data ?? []).some((s) => afterOf(s).length > 0);
  const late = overview.value?.schedules.late ?? 0;
  return (
    <>
      <Title side={linked && <button type="button" aria-pressed={drawn} onClick={() => setDrawn(!drawn)}>{t("whatFollows")}</button>} sub={late > 0 ? <span class="bad-text">{t("nLate", { n: number(late) })}</span> : undefined}>{t("schedules")}</Title>
      <Filter label={t("filterSchedules")} />
      <Fault error={list.error} again={list.again} />
      {drawn && linked && <Panel title={t("whatFollows")}><Follows all={list.data ?? []} /></Panel>}
      {list.data === null ? !list.error && <div class="still" /> : list.data.length === 0 ? <Empty command={`rota schedule set nightly --server ${base.replace(/\/$/, "")} --cron "0 3 * * *" --queue hello`}>{t("noSchedules")}</Empty> : rows.length === 0 && !list.more ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("schedules")} rows={rows} id={(s) => s.name} sorts more={list.more} busy={list.reading} columns={[
        { key: "name", head: t("schedule"), grow: true, by: (s) => s.name, cell: (s) => <><a href={to(["schedules", s.name])}><T s={s.name} /></a> {s.paused && <Mark state="paused" />}{s.title && <div class="quiet"><T s={s.title} /></div>}</> },
        { key: "when", head: t("whenDue"), cell: (s) => <DueRule s={s} /> },
        { key: "zone", head: t("zone"), by: (s) => s.zone, cell: (s) => <T s={s.zone} /> },
        { key: "queue", head: t("queue"), by: (s) => s.queue, cell: (s) => <a href={to(["queues", s.queue])}><T s={s.queue} /></a> },
        { key: "next", head: t("next"), by: (s) => s.next ?? "~", cell: (s) => <When at={s.next} /> },
        { key: "last", head: t("last"), by: (s) => s.last ?? "", cell: (s) => <When at={s.last} /> },
        { key: "outcome", head: t("outcome"), by: (s) => s.last_outcome, cell: (s) => (s.last_outcome ? s.last_task ? <a href={to(["tasks", s.last_task])}><Mark state={s.last_outcome} /></a> : known("state", s.last_outcome) : <span class="quiet">–</span>) },
        { key: "node", head: t("node"), cell: (s) => (s.owner ? <T s={s.owner} /> : <span class="quiet">{s.manual ? "–" : t("noneNow")}</span>) },
      ]} />}
    </>
  );
}
