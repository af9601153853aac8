// How many workers queues and groups need: what `rota forecast` says.
import { query } from "./api";
import { number, t } from "./i18n";
import { useShared, type Loaded } from "./load";
import { firstTask } from "./overview";
import { route, setQuery, to } from "./route";
import { Filter, Table, matches } from "./table";
import { T } from "./text";
import { Dur, When, about, now } from "./time";
import { Bar, Empty, Facts, Fault, Mark, N, Panel, Title } from "./ui";

type QueueNeed = { queue: string; workers: number; wanted: number; known: boolean; wait_p95: string | null; slots: number; busy: number; why: string };
type GroupNeed = { group: string; workers: number; wanted: number; by?: string; why: string };
export type Forecast = { at: string; wait: string; queues: QueueNeed[]; queues_left_out: number; groups: GroupNeed[]; groups_left_out: number; missing: string[] };

const targets = ["1s", "5s", "30s", "1m", "5m", "30m"];
const target = () => route.value.query.get("wait") ?? "5s";

// useForecast reads what a node gathers every ten seconds, of one queue or of all and the groups.
export function useForecast(queue: string, wait = ""): Loaded<Forecast> {
  return useShared<Forecast>("v1/forecast" + query({ queue, wait }), 10_000);
}

// more says how many more workers are needed, and by when; "" = there are enough.
function more(n: { workers: number; wanted: number; by?: string }): string {
  if (n.wanted <= n.workers) return "";
  const count = number(n.wanted - n.workers);
  return n.by && Date.parse(n.by) > now.value ? t("moreWithin", { n: count, d: about(Date.parse(n.by) - now.value) }) : t("moreNow", { n: count });
}

// shortages are the queues and groups that need more than they have.
export function shortages(f: Forecast): { name: string; words: string }[] {
  return [...f.queues.map((q) => ({ name: q.queue, words: more(q), missing: q.wanted - q.workers })), ...f.groups.map((g) => ({ name: g.group, words: more(g), missing: g.wanted - g.workers }))]
    .filter((n) => n.missing > 0).sort((a, b) => b.missing - a.missing);
}

// Verdict is the answer in a few words: colour, shape and text.
function Verdict({ of, known = true }: { of: QueueNeed | GroupNeed; known?: boolean }) {
  const words = more(of);
  if (words) return <span class="warn-text nowrap"><Mark state="full" bare /> {words}</span>;
  return known ? <span class="nowrap"><Mark state="done" bare /> {t("enough")}</span> : <span class="quiet">{t("notKnown")}</span>;
}

// Have is what there is of what is wanted, as a bar with both numbers.
const Have = ({ of }: { of: QueueNeed | GroupNeed }) => <Bar part={of.workers} of={Math.max(of.wanted, of.workers)} tone={of.wanted > of.workers ? "warn" : undefined} text={t("haveOf", { n: number(of.workers), m: number(of.wanted) })} />;

const Slots = ({ of: q }: { of: QueueNeed }) => (q.slots ? <Bar part={q.busy} of={q.slots} text={t("slotsBusy", { n: number(q.busy, 1), m: number(q.slots) })} /> : <N n={0} />);

const Wait = ({ of: q }: { of: QueueNeed }) => (q.wait_p95 === null ? <span class="quiet">{t("unknownWait")}</span> : <Dur d={q.wait_p95} />);

function Missing({ of }: { of: Forecast }) {
  return of.missing.length ? <p class="warn-text">{t("missingNodes")} <T s={of.missing.join(", ")} /></p> : null;
}

export function ForecastScreen() {
  const list = useForecast("", target());
  const f = list.data;
  return (
    <>
      <Title sub={f && <>{t("gathered")} <When at={f.at} /></>} side={<label class="row"><span>{t("waitTarget")}</span>
        <select value={target()} onChange={(e) => setQuery({ wait: e.currentTarget.value === "5s" ? null : e.currentTarget.value })}>
          {(targets.includes(target()) ? targets : [target(), ...targets]).map((w) => <option key={w}>{w}</option>)}
        </select></label>}>{t("forecast")}</Title>
      <Filter label={t("filterForecast")} />
      <Fault error={list.error} again={list.again} />
      {!f ? !list.error && <div class="still" aria-busy="true" /> : <>
        <Missing of={f} />
        {f.queues.length + f.groups.length === 0 ? <Empty command={firstTask()}>{t("noForecast")}</Empty> : <><Queues f={f} /><Groups f={f} /></>}
      </>}
    </>
  );
}

function Queues({ f }: { f: Forecast }) {
  const rows = f.queues.filter((q) => matches(q.queue, q.why));
  if (f.queues.length === 0) return null;
  return (
    <Panel title={t("queues")} side={f.queues_left_out > 0 && <span class="quiet">{t("leftOut", { n: number(f.queues_left_out) })}</span>}>
      {rows.length === 0 ? <p class="pad quiet">{t("noMatch")}</p> : <Table caption={t("queues")} rows={rows} id={(q) => q.queue} sorts columns={[
        { key: "queue", head: t("queue"), by: (q) => q.queue, cell: (q) => <a href={to(["queues", q.queue])}><T s={q.queue} /></a> },
        { key: "verdict", head: t("needsMore"), by: (q) => q.workers - q.wanted, cell: (q) => <Verdict of={q} known={q.known} /> },
        { key: "have", head: t("workersWanted"), by: (q) => q.wanted, cell: (q) => <Have of={q} /> },
        { key: "slots", head: t("slots"), by: (q) => q.slots, cell: (q) => <Slots of={q} /> },
        { key: "wait", head: t("waitForecast"), num: true, cell: (q) => <Wait of={q} /> },
        { key: "why", head: t("why"), grow: true, cell: (q) => <T s={q.why} /> },
      ]} />}
    </Panel>
  );
}

function Groups({ f }: { f: Forecast }) {
  const rows = f.groups.filter((g) => matches(g.group, g.why));
  if (f.groups.length === 0) return null;
  return (
    <Panel title={t("groups")} side={f.groups_left_out > 0 && <span class="quiet">{t("leftOut", { n: number(f.groups_left_out) })}</span>}>
      {rows.length === 0 ? <p class="pad quiet">{t("noMatch")}</p> : <Table caption={t("groups")} rows={rows} id={(g) => g.group} sorts columns={[
        { key: "group", head: t("group"), by: (g) => g.group, cell: (g) => <a href={to(["jobs", g.group])}><T s={g.group} /></a> },
        { key: "verdict", head: t("needsMore"), by: (g) => g.workers - g.wanted, cell: (g) => <Verdict of={g} /> },
        { key: "have", head: t("workersWanted"), by: (g) => g.wanted, cell: (g) => <Have of={g} /> },
        { key: "by", head: t("neededBy"), by: (g) => g.by ?? "~", cell: (g) => <When at={g.by} /> },
        { key: "why", head: t("why"), grow: true, cell: (g) => <T s={g.why} /> },
      ]} />}
    </Panel>
  );
}

// Sentence is the panel of one queue or group.
function Sentence({ f, of, known, facts }: { f: Loaded<Forecast>; of: QueueNeed | GroupNeed | undefined; known?: boolean; facts: [string, preact.ComponentChildren][] }) {
  return (
    <Panel title={t("howManyWanted")} side={<><span>{of && <Verdict of={of} known={known} />}</span><a href="#/forecast">{t("all")}</a></>}>
      <Fault error={f.error} />
      {f.data && <Missing of={f.data} />}
      {of ? <><p class="pad"><T s={of.why} /></p><Facts of={[[t("workersWanted"), <Have of={of} />], ...facts]} /></> : f.data ? <p class="pad quiet">{t("notKnown")}</p> : null}
    </Panel>
  );
}

export function QueueForecast({ name }: { name: string }) {
  const f = useForecast(name), q = f.data?.queues[0];
  return <Sentence f={f} of={q} known={q?.known} facts={q ? [[t("slots"), <Slots of={q} />], [t("waitForecast"), <Wait of={q} />]] : []} />;
}

export function GroupForecast({ name }: { name: string }) {
  const f = useForecast(""), g = f.data?.groups.find((x) => x.group === name);
  return <Sentence f={f} of={g} facts={[[t("neededBy"), g?.by && <When at={g.by} />]]} />;
}
