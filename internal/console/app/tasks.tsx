// Tasks: a filter in the URL, a page at a time, and what can be done with all that it selects.
import { useEffect, useMemo, useState } from "preact/hooks";
import { query } from "./api";
import { Bulk } from "./bulk";
import { number, t } from "./i18n";
import { alike, pattern } from "./likeness";
import { overview } from "./live";
import { useLoad, usePages, type Page } from "./load";
import { firstTask } from "./overview";
import { route, setQuery, to } from "./route";
import { Arrivals, SpanChoice } from "./stats";
import { Submit } from "./submit";
import { Table, type Column } from "./table";
import { T } from "./text";
import { Age, When, millis, now } from "./time";
import { Bar, Empty, Fault, Mark, N, Panel, Title } from "./ui";
import type { Queue } from "./queues";

export type TaskItem = {
  id: string; queue: string; state: string; stage: string; attempt: number; priority: string; due: string | null; expires?: string; created: string | null;
  worker: string; key: string; group_key: string; meta?: Record<string, string>; progress?: number; note?: string; started?: string; stuck?: string; error?: string;
};

export const states = ["blocked", "waiting", "ready", "running", "done", "dead", "cancelled", "expired"] as const;
const fields = ["queue", "state", "stage", "worker", "key", "error", "since", "until"] as const;
type FieldName = (typeof fields)[number];

// carried are the filters by what tasks carry, as the list's parameters have them: meta.customer.
const carried = () => Object.fromEntries([...route.value.query].filter(([k]) => k.startsWith("meta.")));

// Carries shows what a task carries; each leads to the tasks that carry the same.
export function Carries({ meta }: { meta: Record<string, string> }) {
  return <>{Object.entries(meta).map(([k, v]) => <a class="mono" href={to(["tasks"], { ["meta." + k]: v })} key={k}><T s={k + "=" + v} /> </a>)}</>;
}

const chosen = () => Object.fromEntries(fields.map((f) => [f, route.value.query.get(f) ?? ""])) as Record<FieldName, string>;

// typed reads "queue:mail state:dead": a word without a name is a queue's, a value in quotes may have spaces.
export function typed(text: string): { fields: Record<string, string>; wrong: string[] } {
  const out: Record<string, string> = {}, wrong: string[] = [];
  for (const m of text.matchAll(/(?:([a-z_]+|meta\.[^\s:"]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g)) {
    const value = m[2] !== undefined ? m[2].replace(/\\(.)/g, "$1") : m[3];
    const name = m[1] ?? "queue";
    if (name === "since" || name === "until") out[name] = instant(value);
    else if (name === "stuck" || name.startsWith("meta.") || (fields as readonly string[]).includes(name)) out[name] = value;
    else wrong.push(name);
  }
  return { fields: out, wrong };
}

// instant lets "2h" stand for two hours ago. What is no time goes as it is, for the node to refuse.
function instant(value: string): string {
  const at = /^[\d.]+(?:s|m|h)(?:[\d.]+(?:s|m))*$/.test(value) ? new Date(now.peek() - millis(value)) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : value;
}

export function written(of: Record<string, string>): string {
  return Object.entries(of).filter(([, v]) => v).map(([k, v]) => k + ":" + (/[\s"\\]/.test(v) ? '"' + v.replace(/["\\]/g, "\\$&") + '"' : v)).join(" ");
}

function FilterBar({ of }: { of: Record<string, string> }) {
  const whole = written(of);
  const [text, setText] = useState(whole);
  useEffect(() => setText(whole), [whole]);
  const parsed = typed(text);
  const apply = () => { if (!parsed.wrong.length) setQuery({ ...Object.fromEntries([...fields, "stuck", ...Object.keys(carried())].map((f) => [f, null])), ...parsed.fields, page: null }); };
  return (
    <form class="filter wide" onSubmit={(e) => { e.preventDefault(); apply(); }}>
      <input id="filter" type="search" value={text} autocomplete="off" spellcheck={false} aria-label={t("filterTasks")} aria-describedby="filter-hint" aria-invalid={parsed.wrong.length > 0}
        placeholder='queue:mail state:dead stage:send worker:w1 key:k error:"i/o timeout" since:2h' onInput={(e) => setText(e.currentTarget.value)} onBlur={apply} />
      <kbd aria-hidden="true">/</kbd>
      <span id="filter-hint" class={parsed.wrong.length ? "bad-text" : "sr"}>{parsed.wrong.length ? t("unknownFilter", { f: parsed.wrong.join(", "), all: fields.join(", ") + ", meta.…, stuck" }) : t("filterHint", { all: fields.join(", ") })}</span>
    </form>
  );
}

// useCounts is how many tasks there are by state, of a queue or of all; what is not known is left out, as is how many are done in more
// queues than a list has. Nobody counts what other filters select.
function useCounts(queue: string): Record<string, number> | null {
  const one = useLoad<Queue>(queue ? "v1/queues/" + encodeURIComponent(queue) : null, 2000);
  const all = useLoad<Page<Queue>>(queue ? null : "v1/queues?limit=1000", 5000);
  const none = () => Object.fromEntries(states.map((s) => [s, 0]));
  if (queue) return one.data && { ...none(), ...one.data.counts };
  if (!all.data) return null;
  const sum: Record<string, number> = all.data.next ? {} : none();
  if (!all.data.next) for (const q of all.data.items) for (const [k, v] of Object.entries(q.counts)) sum[k] += v;
  const o = overview.value;
  return o ? { ...sum, blocked: o.blocked, ready: o.ready, waiting: o.waiting, running: o.running } : sum;
}

function StateTabs({ of, stuck }: { of: Record<FieldName, string>; stuck: boolean }) {
  const all = useCounts(of.queue), filtered = stuck || Object.entries(of).some(([k, v]) => v && k !== "queue" && k !== "state");
  const counts = filtered ? null : all;
  const total = counts && states.every((s) => counts[s] !== undefined) ? states.reduce((n, s) => n + counts[s], 0) : null;
  const tab = (state: string, label: preact.ComponentChildren, n: number | null | undefined) => (
    <a href={to(["tasks"], { ...of, state: state || null })} aria-current={of.state === state ? "true" : undefined} key={state}>{label} <span class="count">{n === null || n === undefined ? "–" : number(n)}</span></a>
  );
  return <nav class="tabs" aria-label={t("states")}>{tab("", t("all"), total)}{states.map((s) => tab(s, <Mark state={s} />, counts?.[s]))}</nav>;
}

export const columns = (): Column<TaskItem>[] => [
  { key: "id", head: t("task"), cell: (x) => <a class="mono" href={to(["tasks", x.id])}><T s={x.id} /></a> },
  { key: "state", head: t("state"), cell: (x) => <><Mark state={x.state} />{x.stuck && <span class="bad-text"> <T s={x.stuck} /></span>}</> },
  { key: "queue", head: t("queue"), cell: (x) => <a href={to(["tasks"], { queue: x.queue })}><T s={x.queue} /></a> },
  { key: "stage", head: t("stage"), cell: (x) => (x.stage ? <a href={to(["tasks"], { queue: x.queue, stage: x.stage })}><T s={x.stage} /></a> : <span class="quiet">–</span>) },
  { key: "attempt", head: t("attempt"), num: true, cell: (x) => <N n={x.attempt} /> },
  { key: "worker", head: t("worker"), cell: (x) => (x.worker ? <a href={to(["workers"], { q: x.worker })}><T s={x.worker} /></a> : <span class="quiet">–</span>) },
  { key: "progress", head: t("whatOfIt"), grow: true, cell: (x) => (x.state !== "running" ? <>{x.error && <span class="mono clip3"><T s={x.error} /></span>}{x.key && <span class="quiet">{t("key")} <T s={x.key} /></span>} {x.meta && <Carries meta={x.meta} />}</> : <>{x.progress !== undefined && <Bar part={x.progress} of={1} text={number(x.progress * 100, 0) + " %"} />} {x.note && <T s={x.note} />} {x.started && <span class="quiet"><Age since={x.started} /></span>}</>) },
  { key: "due", head: t("due"), cell: (x) => <When at={x.due} /> },
  { key: "created", head: t("created"), cell: (x) => <When at={x.created} /> },
];

export function TasksScreen() {
  const also = carried();
  const of = { ...chosen(), ...also };
  const stuck = route.value.query.get("stuck") === "true";
  const [grouped, setGrouped] = useState(false);
  const [adding, setAdding] = useState(false);
  const list = usePages<TaskItem>("v1/tasks" + query({ ...of, stuck, limit: 100 }), 3000, 1);
  const empty = fields.every((f) => !of[f]) && Object.keys(also).length === 0 && !stuck;
  const filter = Object.fromEntries(Object.entries(of).filter(([, v]) => v));
  const acts = { ...Object.fromEntries(Object.entries(filter).filter(([k]) => !(k in also))), ...(Object.keys(also).length ? { meta: Object.fromEntries(Object.entries(also).map(([k, v]) => [k.slice("meta.".length), v])) } : {}) };
  const words = written(of);
  const live = overview.value, over = ["dead", "cancelled", "done", "expired"].includes(of.state);
  const goesOn = !stuck && !over && live !== null && live.ready + live.blocked + live.waiting + live.running > 0;
  return (
    <>
      <Title side={<>
        <Bulk verb="retry" offered={!stuck && over} filter={acts} words={words} done={list.again} />
        <Bulk verb="patch" offered={goesOn} filter={acts} words={words} done={list.again} /><Bulk verb="cancel" offered={goesOn} filter={acts} words={words} done={list.again} />
        <Submit.Button open={() => setAdding(true)} />
      </>}>{t("tasks")}</Title>
      {adding && <Submit.Form close={() => setAdding(false)} begin={{ queue: of.queue }} />}
      <FilterBar of={{ ...of, ...(stuck ? { stuck: "true" } : {}) }} />
      <StateTabs of={of} stuck={stuck} />
      <Panel title={t("arrivals")} side={<SpanChoice />}>
        <Arrivals queue={of.queue} brush={(a, b) => setQuery({ since: new Date(a * 1000).toISOString(), until: new Date(b * 1000).toISOString() })} />
      </Panel>
      <Fault error={list.error} again={list.again} />
      {list.data && list.data.length > 0 && <div class="row spread">
        <span class="quiet">{t("shownNewest", { n: number(list.data.length) })}{list.more ? " · " + t("thereAreMore") : ""}</span>
        <button type="button" aria-pressed={grouped} onClick={() => setGrouped(!grouped)}>{t("groupErrors")}</button>
      </div>}
      {list.data?.length === 0 && list.more && <p class="quiet">{t("searchOn")}</p>}
      {list.data === null ? !list.error && <div class="still" aria-busy="true" /> : list.data.length === 0 && !list.more
        ? <Empty command={empty ? firstTask() : undefined}>{empty ? t("noTasks") : <>{t("noMatch")} <a href="#/tasks">{t("allTasks")}</a></>}</Empty>
        : list.data.length === 0 ? null : grouped ? <Errors tasks={list.data} of={filter} /> : <Table caption={t("tasks")} columns={columns()} rows={list.data} id={(x) => x.id} />}
      {list.more && <div class="more"><button type="button" disabled={list.reading} onClick={list.more}>{list.reading ? t("reading") : t("more")}</button></div>}
    </>
  );
}

// Errors counts the errors of the tasks on the loaded pages that are alike.
function Errors({ tasks, of }: { tasks: TaskItem[]; of: Record<string, string> }) {
  const groups = useMemo(() => {
    const by = new Map<string, TaskItem[]>();
    for (const x of tasks) if (x.error) by.set(alike(x.error), [...(by.get(alike(x.error)) ?? []), x]);
    return [...by].sort((a, b) => b[1].length - a[1].length);
  }, [tasks]);
  return (
    <Panel title={t("errorsAlike")} side={<span class="quiet" role="status">{t("overLoaded", { n: number(tasks.filter((x) => x.error).length), m: number(tasks.length) })}</span>}>
      {groups.length === 0 ? <p class="quiet pad">{t("noErrors")}</p> : <Table caption={t("errorsAlike")} rows={groups} id={(g) => g[0]} columns={[
        { key: "n", head: t("count"), num: true, cell: (g) => <N n={g[1].length} to={to(["tasks"], { ...of, error: pattern(g[0]) })} /> },
        { key: "error", head: t("error"), grow: true, cell: (g) => <span class="mono clip3"><T s={g[0]} /></span> },
        { key: "queues", head: t("queue"), cell: (g) => [...new Set(g[1].map((x) => x.queue))].slice(0, 3).map((q) => <a href={to(["tasks"], { ...of, queue: q, error: pattern(g[0]) })} key={q}><T s={q} /> </a>) },
        { key: "last", head: t("newest"), cell: (g) => <a class="mono" href={to(["tasks", g[1][0].id])}><T s={g[1][0].id} /></a> },
      ]} />}
    </Panel>
  );
}
