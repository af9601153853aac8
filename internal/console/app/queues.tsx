import { number, t } from "./i18n";
import { overview, rate, rates, type QueueLine } from "./live";
import { usePages } from "./load";
import { firstTask, Rate } from "./overview";
import { to } from "./route";
import { Filter, Table, matches, type Column } from "./table";
import { T } from "./text";
import { Age, now } from "./time";
import { Empty, Fault, Mark, N, Spark, Title } from "./ui";

export type Retry = { initial: string; max: string; factor: number; jitter: number };
export type Queue = {
  name: string; counts: Record<string, number>; oldest_ready: string | null; timeout: string; silence: string; max_attempts: number; retry: Retry;
  hold_limit: number; poll_interval: string; context_limit: number; retention: string; retention_dead: string; final_queue: string; paused: boolean;
  title: string; owner: string; max_running: number; rate: string; burst: number;
  per_key: { max_running: number; rate: string; burst: number; on_dead: string }; fair: boolean;
  limits?: { running: number; full_keys: number; waiting_for: { max_running: boolean; rate: boolean; keys_at_limit: number; paused_keys: number } };
};

// held says whether a limit of the queue holds ready tasks back.
export const held = (q: Queue) => !!q.limits && Object.values(q.limits.waiting_for).some(Boolean);

export const flow = (q: string, f: (l: QueueLine) => number) => rate((s) => { const l = s.queues.get(q); return l && f(l); });

export function QueuesScreen() {
  const list = usePages<Queue>("v1/queues?limit=1000", 2000);
  const rows = (list.data ?? []).filter((q) => matches(q.name, q.title, q.owner));
  const count = (state: string): Column<Queue> => ({
    key: state, head: t(state as "ready"), num: true, by: (q) => q.counts[state], cell: (q) => <N n={q.counts[state] ?? 0} tone={state === "dead" ? "bad" : undefined} to={to(["tasks"], { queue: q.name, state })} />,
  });
  return (
    <>
      <Title>{t("queues")}</Title>
      <Filter label={t("filterQueues")} />
      <Fault error={list.error} again={list.again} />
      {list.data === null ? !list.error && <div class="still" /> : list.data.length === 0 ? <Empty command={firstTask()}>{t("noQueues")}</Empty> : rows.length === 0 && !list.more ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("queues")} rows={rows} id={(q) => q.name} sorts more={list.more} busy={list.reading} columns={[
        { key: "name", head: t("queue"), grow: true, by: (q) => q.name, cell: (q) => <><a href={to(["queues", q.name])}><T s={q.name} /></a> {q.paused ? <Mark state="paused" /> : held(q) && <Mark state="limited" />}{q.title && <div class="quiet"><T s={q.title} /></div>}</> },
        { key: "oldest", head: t("oldestReady"), num: true, by: (q) => (q.oldest_ready ? now.peek() - Date.parse(q.oldest_ready) : -1), cell: (q) => <a class="n" href={to(["tasks"], { queue: q.name, state: "ready" })}><Age since={q.oldest_ready} /></a> },
        count("ready"), count("waiting"), ...(rows.some((q) => q.counts.blocked) ? [count("blocked")] : []), count("running"),
        { key: "in", head: t("inRate"), num: true, cell: (q) => <Rate n={flow(q.name, (l) => l.submitted)} /> },
        { key: "out", head: t("outRate"), num: true, cell: (q) => <Rate n={flow(q.name, (l) => l.done)} /> },
        { key: "curve", head: t("lastMinutes"), cell: (q) => <Spark label={t("doneCurve")} values={overview.value ? rates((s) => s.queues.get(q.name)?.done) : []} /> },
        count("done"), count("dead"),
        { key: "share", head: t("deadShare"), num: true, by: share, cell: (q) => (share(q) ? <span class="n bad">{number(share(q) * 100, 2)} %</span> : <span class="n zero">0 %</span>) },
        { key: "owner", head: t("owner"), cell: (q) => (q.owner ? <T s={q.owner} /> : <span class="quiet">–</span>) },
      ]} />}
    </>
  );
}

const share = (q: Queue) => { const all = (q.counts.done ?? 0) + (q.counts.dead ?? 0); return all ? (q.counts.dead ?? 0) / all : 0; };
