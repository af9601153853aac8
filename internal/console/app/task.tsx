// One task: where it stands and why, what became of each hand-out, what it carries, what its worker wrote.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, events, get, may, part, query, send } from "./api";
import { Carried } from "./carried";
import { EditForm, nothing } from "./edit";
import { known, number, t } from "./i18n";
import { rawField } from "./json";
import { useLoad } from "./load";
import { go, to } from "./route";
import { SignalForm, awaited, type Awaited as Wanted, type Awaits } from "./signal";
import { Submit } from "./submit";
import { Table } from "./table";
import { Carries, type TaskItem } from "./tasks";
import { Tree } from "./tree";
import { T } from "./text";
import { Age, Dur, When, clock, duration, now } from "./time";
import { Act, Bar, Copy, Fault, Facts, Mark, N, Panel, Title, say } from "./ui";

export type Step = { seq: number; outcome: string; stage: string; worker: string; started: string | null; finished: string | null; error: string; changed?: string[] };
type Children = { total: number; done: number; dead: number; cancelled: number; expired: number };
type Prior = { id: string; ref?: string; if: "done" | "ended"; state?: string };
type Whole = TaskItem & { after?: Prior[]; steps: Step[]; awaits?: Awaits; parent?: string; children?: Children; contextText: string; resultText: string };
export type Reasons = { state: string; reasons: { kind: string; text: string; until?: string; change?: string }[]; starts?: string };

async function readTask(path: string, signal: AbortSignal): Promise<Whole> {
  const text = await call("GET", path, { signal });
  return { ...(JSON.parse(text) as Whole), contextText: rawField(text, "context") ?? "null", resultText: rawField(text, "result") ?? "null" };
}

const final = (state: string) => ["done", "dead", "cancelled", "expired"].includes(state);

export function TaskScreen({ id }: { id: string }) {
  const [every, setEvery] = useState(1500);
  const task = useLoad<Whole>("v1/tasks/" + part(id), every, readTask);
  const x = task.data;
  const [again, setAgain] = useState(false);
  const [editing, setEditing] = useState(false);
  const [wanted, setWanted] = useState<Wanted | null>(null);
  // What is over seldom changes, and a large context is not read every moment.
  const large = x !== null && x.contextText.length + x.resultText.length > 200_000;
  useEffect(() => { if (x) setEvery(final(x.state) ? 15_000 : large ? 10_000 : 1500); }, [x?.state, large]);
  const crumbs: [string, string][] = [[t("tasks"), "#/tasks"], ...(x ? [[x.queue, to(["tasks"], { queue: x.queue })] as [string, string]] : [])];
  if (!x) return <><Title crumbs={crumbs}>{t("task")} <span class="mono"><T s={id} /></span></Title><Fault error={task.error} again={task.again} /></>;
  return (
    <>
      <Title crumbs={crumbs} side={<Actions x={x} after={task.again} another={() => setAgain(true)} edit={() => setEditing(true)} signal={setWanted} />}>
        <span class="mono"><T s={x.id} /></span> <Mark state={x.state} />
      </Title>
      {again && <Submit.Form close={() => setAgain(false)} begin={{ queue: x.queue, stage: firstStage(x), context: x.contextText === "null" ? "" : x.contextText, priority: x.priority, group_key: x.group_key, meta: x.meta }} />}
      {editing && <EditForm title={t("editTask")} go={t("save")} close={() => setEditing(false)} begin={{ ...nothing, priority: x.priority, group_key: x.group_key, meta: x.meta ? JSON.stringify(x.meta) : "", context: x.contextText }}
        does={async (raw) => { await call("PATCH", "v1/tasks/" + part(id), { raw, need: "operate" }); setEditing(false); task.again(); say(t("saved")); }} />}
      {wanted && <SignalForm of={wanted} close={() => setWanted(null)} after={task.again} />}
      <Fault error={task.error} />
      <div class="two">
        <Panel title={t("about1")}>
          <Facts of={[
            [t("queue"), <a href={to(["queues", x.queue])}><T s={x.queue} /></a>],
            [t("stage"), x.stage && <T s={x.stage} />],
            [t("attempt"), <N n={x.attempt} />],
            [t("worker"), x.worker && <a href={to(["workers"], { q: x.worker })}><T s={x.worker} /></a>],
            [t("progress"), x.state === "running" && x.progress !== undefined ? <Bar part={x.progress} of={1} text={number(x.progress * 100, 0) + " %"} /> : null],
            [t("note"), x.state === "running" && x.note ? <T s={x.note} /> : null],
            [t("runsSince"), x.state === "running" && x.started ? <Age since={x.started} /> : null],
            [t("awaits"), x.awaits && <Awaited of={x.awaits} />],
            [t("parent"), x.parent && <a href={to(["tasks", x.parent])}><T s={x.parent} /></a>],
            [t("after"), x.after && <Others of={x.after} />],
            [t("children"), x.children && <Family of={x.children} />],
            [t("due"), <When at={x.due} />], [t("expires"), x.expires ? <When at={x.expires} /> : null], [t("created"), <When at={x.created} />],
            [t("priority"), x.priority !== "0s" ? <Dur d={x.priority} /> : null],
            [t("key"), x.key && <T s={x.key} />], [t("groupKey"), x.group_key && <T s={x.group_key} />],
            [t("meta"), x.meta && <Carries meta={x.meta} />],
          ]} />
        </Panel>
        {!final(x.state) ? <Explain path={"v1/tasks/" + part(id) + "/explain"} /> : <Ended x={x} />}
      </div>
      {x.children && <Tree id={x.id} over={final(x.state) && x.children.total === x.children.done + x.children.dead + x.children.cancelled + x.children.expired} />}
      <Timeline x={x} />
      <Carried key={x.id} x={x} />
      <Log path={"v1/tasks/" + part(id) + "/logs"} over={final(x.state)} />
    </>
  );
}

const firstStage = (x: Whole) => x.steps.find((s) => s.started)?.stage ?? x.stage;

function Actions({ x, after, another, edit, signal }: { x: Whole; after: () => void; another: () => void; edit: () => void; signal: (w: Wanted) => void }) {
  const path = "v1/tasks/" + part(x.id);
  const wanted = awaited(x);
  return (
    <>
      {wanted && <button type="button" class="main" onClick={() => signal(wanted)}>{t("sendSignal")}</button>}
      {x.state === "waiting" && <Act label={t("runNow")} does={() => send("POST", path + "/run")} after={after} />}
      {may("operate") && !final(x.state) && x.state !== "running" && <button type="button" onClick={edit}>{t("edit")}</button>}
      {final(x.state) && x.state !== "done" && x.steps.some((s) => s.started && s.stage !== x.stage) && <Act label={t("retryWhole")} does={() => send("POST", path + "/retry", { whole: true })} after={after} ask={t("retryWholeAsk")} />}
      {final(x.state) && <Act label={t("retry")} does={() => send("POST", path + "/retry")} after={after} ask={x.state === "done" ? t("retryDone") : undefined} />}
      {!final(x.state) && <Act label={t("cancel")} kind="bad" need="submit" does={() => send("POST", path + "/cancel")} after={after} ask={x.state === "running" ? t("cancelRunning") : t("cancelTask")} />}
      {!final(x.state) && x.children && <Act label={t("cancelTree")} kind="bad" need="submit" does={() => send("POST", path + "/cancel?tree=true")} after={after} ask={t("cancelTreeAsk")} />}
      {may("submit") && <button type="button" onClick={another}>{t("another")}</button>}
      {x.state !== "running" && <Act label={t("remove")} kind="bad" does={() => send("DELETE", path)} after={() => go(["tasks"], { queue: x.queue })} ask={t("removeTask")} />}
    </>
  );
}

// Awaited says what a blocked task waits for, and what comes when it does not come.
function Awaited({ of: a }: { of: Awaits }) {
  return (
    <>
      {a.tasks && t("awaitsTasks")}
      {a.signal && <T s={t("awaitsSignal", { s: a.signal }) + (a.key ? " " + t("awaitsKey", { k: a.key }) : "")} />}
      {a.children && t(a.children === "all" ? "awaitsChildren" : "awaitsFirst")}
      {a.until && <> · {t("until")} <When at={a.until} /></>}
      {a.else ? <> · <T s={t("awaitsElse", { s: a.else })} /></> : a.until && <> · {t("awaitsAgain")}</>}
    </>
  );
}

// Family says how the children of a task stand.
function Family({ of: c }: { of: Children }) {
  const open = c.total - c.done - c.dead - c.cancelled - c.expired;
  const parts: [string, number][] = [["open", open], ["done", c.done], ["dead", c.dead], ["cancelled", c.cancelled], ["expired", c.expired]];
  return <><N n={c.total} />{parts.filter(([, n]) => n > 0).map(([s, n]) => <> · {s === "open" ? t("childrenOpen") : known("state", s)} <N n={n} /></>)}</>;
}

// Others names the tasks that had to end before this one could begin, or have to, and how they ended.
const shownOthers = 100;
function Others({ of }: { of: Prior[] }) {
  return <>{of.slice(0, shownOthers).map((p) => <div key={p.id + (p.ref ?? "")}>
    <a href={to(["tasks", p.id])}><T s={p.ref || p.id} /></a> {p.state ? <Mark state={p.state} /> : <span class="quiet">{t(p.if === "done" ? "hasToBeDone" : "hasToEnd")}</span>}
  </div>)}{of.length > shownOthers && <div class="quiet">{t("leftOut", { n: number(of.length - shownOthers) })}</div>}</>;
}

function Ended({ x }: { x: Whole }) {
  const last = x.steps.at(-1);
  return (
    <Panel title={t("howItEnded")}>
      <Facts of={[[t("state"), <Mark state={x.state} />], [t("finished"), last && <When at={last.finished} />], [t("steps"), <N n={x.steps.length} />]]} />
      {last?.error && <pre class="error" tabIndex={0}><T s={last.error} lines /></pre>}
    </Panel>
  );
}

// Explain says what holds something back, and what would change it.
export function Explain({ path }: { path: string }) {
  const why = useLoad<Reasons>(path, 3000);
  return (
    <Panel title={t("why")} side={why.data && <Mark state={why.data.state} />}>
      <Fault error={why.error} />
      {why.data && (why.data.reasons.length === 0 ? <p class="pad quiet">{t("nothingHolds")}</p> : <ul class="reasons">{why.data.reasons.map((r) => (
        <li key={r.kind + r.text}><strong>{known("reason", r.kind)}</strong> <T s={r.text} />{r.until && <> · {t("until")} <When at={r.until} /></>}
          {r.change && <div class="change">{t("change")} {/^rota |^curl /.test(r.change) ? <><code><T s={r.change} /></code> <Copy text={r.change} /></> : <T s={r.change} />}</div>}</li>
      ))}</ul>)}
      {why.data?.starts && <p class="pad">{t("startsAbout")} <When at={why.data.starts} /></p>}
    </Panel>
  );
}

// Timeline draws each hand-out between its begin and its end, and says the same in a table.
function Timeline({ x }: { x: Whole }) {
  const begin = Date.parse(x.created ?? x.due ?? "");
  const running = x.state === "running" && x.started ? Date.parse(x.started) : null;
  const last = x.steps.reduce((n, s) => Math.max(n, Date.parse(s.finished ?? s.started ?? "") || 0), begin);
  const end = final(x.state) ? last : Math.max(now.value, last);
  const length = Math.max(1, end - begin);
  const at = (ms: number) => Math.min(1000, Math.max(0, ((ms - begin) / length) * 1000));
  const rows: Step[] = [...x.steps, ...(running ? [{ seq: (x.steps.at(-1)?.seq ?? -1) + 1, outcome: "running", stage: x.stage, worker: x.worker, started: x.started!, finished: null, error: "" }] : [])];
  return (
    <Panel title={t("steps")} side={<span class="quiet">{x.steps.length >= 1000 ? t("newest1000") : duration(length)}</span>}>
      {rows.length === 0 ? <p class="pad quiet">{t("noSteps")}</p> : <>
        <svg class="timeline" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label={t("steps")}>
          <rect class="track" width="1000" height="14" />
          {rows.slice(-200).map((s) => {
            const a = at(Date.parse(s.started ?? s.finished ?? "")), b = at(s.finished ? Date.parse(s.finished) : end);
            return <rect key={s.seq} class={"o-" + s.outcome} x={a} width={Math.max(3, b - a)} height="14"><title>{`${s.seq} ${s.outcome}`}</title></rect>;
          })}
        </svg>
        <div class="timeline-ends quiet"><span>{clock(begin)}</span><span>{clock(end)}</span></div>
        <Table caption={t("steps")} rows={rows} id={(s) => String(s.seq)} columns={[
          { key: "seq", head: "#", num: true, cell: (s) => number(s.seq) },
          { key: "outcome", head: t("outcome"), cell: (s) => <Mark state={s.outcome} /> },
          { key: "stage", head: t("stage"), cell: (s) => (s.stage ? <T s={s.stage} /> : <span class="quiet">–</span>) },
          { key: "worker", head: t("worker"), cell: (s) => (s.worker ? <a href={to(["workers"], { q: s.worker })}><T s={s.worker} /></a> : <span class="quiet">–</span>) },
          { key: "started", head: t("started"), cell: (s) => <When at={s.started} /> },
          { key: "took", head: t("took"), num: true, cell: (s) => (s.started && s.finished ? duration(Date.parse(s.finished) - Date.parse(s.started)) : s.started ? <Age since={s.started} /> : <span class="quiet">–</span>) },
          { key: "error", head: t("error"), grow: true, cell: (s) => (s.changed ? <T s={t("changedFields", { f: s.changed.join(", ") })} /> : s.error ? <span class="mono clip3"><T s={s.error} /></span> : "") },
        ]} />
      </>}
    </Panel>
  );
}

type Line = { time: string | null; stream: string; text: string };
const keptLines = 5000;

// Log follows what a worker writes. Lines that are read already are not asked for again. over is whether who writes it is: what a
// stream's end does not tell, as a node that stops ends streams, too. The log of a job is never over.
export function Log({ path, over, side }: { path: string; over?: boolean; side?: preact.ComponentChildren }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [left, setLeft] = useState(0);
  const [state, setState] = useState<"reading" | "open" | "end" | "broken">("reading");
  const [error, setError] = useState<unknown>(null);
  const [stick, setStick] = useState(true);
  const [turn, setTurn] = useState(0);
  const box = useRef<HTMLDivElement>(null), ends = useRef(over);
  ends.current = over;
  useEffect(() => {
    const cut = new AbortController();
    let cursor = "", fresh: Line[] = [], timer = 0, came = 0;
    setLines([]); setLeft(0); setState("reading"); setError(null);
    const show = () => {
      timer = 0;
      const more = fresh;
      fresh = [];
      setLines((l) => [...l, ...more].slice(-keptLines));
      setLeft(Math.max(0, came - keptLines));
    };
    const read = async () => {
      for (let wait = 500; !cut.signal.aborted; wait = Math.min(wait * 2, 10_000)) {
        try {
          await events(path + query({ follow: true, cursor }), cut.signal, (_, data, id) => {
            cursor = id || cursor;
            wait = 500;
            const v = JSON.parse(data) as Line | Line[], got = Array.isArray(v) ? v : [v];
            came += got.length;
            fresh.push(...got);
            timer ||= window.setTimeout(show, 100);
          }, () => { setState("open"); setError(null); });
          if (ends.current && (await get<{ items: Line[] }>(path + query({ limit: 1, cursor }), { signal: cut.signal })).items.length === 0) {
            setState("end");
            return;
          }
        } catch (err) {
          if (cut.signal.aborted) return;
          setError(err);
          setState("broken");
        }
        await new Promise((done) => setTimeout(done, wait));
      }
    };
    void read();
    return () => { cut.abort(); clearTimeout(timer); };
  }, [path, turn]);
  // What was over goes on: somebody retried it.
  const again = state === "end" && !over;
  useEffect(() => { if (again) setTurn((n) => n + 1); }, [again]);
  useEffect(() => { if (stick && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines, stick]);
  return (
    <Panel title={t("log")} side={<>{side}<span class="quiet" role="status">{state === "open" ? t("logFollows") : state === "end" ? t("logEnds") : ""}</span>
      <label class="check"><input type="checkbox" checked={stick} onChange={(e) => setStick(e.currentTarget.checked)} /> {t("stick")}</label></>}>
      {state === "broken" && <Fault error={error} />}
      {left > 0 && <p class="pad quiet">{t("logCut", { n: number(left) })}</p>}
      {lines.length === 0 ? <p class="pad quiet">{state === "end" ? t("noLog") : t("logWaits")}</p> : <div class="log" ref={box} tabIndex={0} role="log" aria-label={t("log")}>{lines.map((l, i) => (
        <div key={i} class={l.stream === "stderr" ? "err" : ""}><time class="quiet">{l.time ? clock(Date.parse(l.time)) : ""}</time>{l.stream === "stderr" && <span class="stream">err</span>}<span><T s={l.text} /></span></div>
      ))}</div>}
    </Panel>
  );
}
