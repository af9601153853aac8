import { useEffect, useRef, useState } from "preact/hooks";
import { Alarms } from "./alarms";
import { base, events as stream, get, Problem, query, tokens } from "./api";
import { number, t } from "./i18n";
import type { Page } from "./load";
import { paused } from "./prefs";
import { route, setQuery, to } from "./route";
import { Table, matches, Filter } from "./table";
import { T } from "./text";
import { When, now } from "./time";
import { Empty, Fault, Title } from "./ui";

export type EventItem = { seq: number; time: string; kind: string; subject: string; text: string; fields: Record<string, string> };

const spans: Record<string, number> = { "1h": 36e5, "24h": 864e5, "7d": 6048e5, "30d": 2592e6 };
const most = 5000;

// subjectPlace is the screen of what an event is about, as far as its kind says.
export function subjectPlace(e: EventItem): string | undefined {
  const kind = e.kind.replace(/^audit\./, "").split(".")[0];
  if (kind === "task" && /^[0-9a-z]{15}$/.test(e.subject)) return to(["tasks", e.subject]);
  if (kind === "queue") return to(["queues", e.subject]);
  if (kind === "worker") return to(["workers"], { q: e.subject });
  if (kind === "group" || kind === "jobs") return to(["jobs", e.subject]);
  if (kind === "schedule") return to(["schedules", e.subject]);
  if (kind === "node") return to(["nodes"], { q: e.subject });
  if (kind === "notifier") return to(["notifiers"], { q: e.subject });
  return undefined;
}

export function EventsScreen() {
  const kind = route.value.query.get("kind") ?? "", wanted = route.value.query.get("span") ?? "", chosen = Object.hasOwn(spans, wanted) ? wanted : "24h";
  const [items, setItems] = useState<EventItem[]>([]);
  const [state, setState] = useState<"reading" | "live">("reading");
  const [error, setError] = useState<unknown>(null);
  const [typed, setTyped] = useState(kind);
  const held = useRef<EventItem[]>([]);
  const still = paused.value, given = tokens.value;
  useEffect(() => setTyped(kind), [kind]);
  useEffect(() => {
    const cut = new AbortController();
    setItems([]); setState("reading"); setError(null);
    held.current = [];
    const since = new Date(now.peek() - spans[chosen]).toISOString();
    // The list goes oldest first: it is read on to its end, then followed from there.
    const read = async () => {
      let cursor = "";
      const all: EventItem[] = [];
      for (let n = 0; n < 200; n++) {
        const page = await get<Page<EventItem>>("v1/events" + query({ kind, since: cursor ? undefined : since, limit: 1000, cursor }), { signal: cut.signal });
        all.push(...page.items);
        if (n % 5 === 4) setItems(all.slice(-most));
        if (!page.next) break;
        cursor = page.next;
      }
      setItems(all.slice(-most));
      setState("live");
      setError(null);
      return all.at(-1)?.seq ?? -1;
    };
    // follow goes on behind the last event until the screen is left, whatever breaks. A node that refuses to go on there has another
    // store, or the one that was: all is read anew.
    const follow = async () => {
      let last: number | undefined;
      for (let wait = 1000; !cut.signal.aborted; wait = Math.min(wait * 2, 10_000)) {
        try {
          last ??= await read();
          await stream("v1/events/stream" + query({ kind, cursor: last < 0 ? undefined : last, since: last < 0 ? since : undefined }), cut.signal, (_, data) => {
            const e = JSON.parse(data) as EventItem;
            if (e.seq <= last!) return;
            last = e.seq;
            if (paused.peek()) held.current = [...held.current, e].slice(-most);
            else setItems((l) => [...l, e].slice(-most));
          }, () => { wait = 500; setError(null); });
        } catch (err) {
          if (cut.signal.aborted) return;
          setError(err);
          if (err instanceof Problem && err.status === 422) last = undefined;
        }
        await new Promise((done) => setTimeout(done, wait));
      }
    };
    void follow();
    return () => cut.abort();
  }, [kind, chosen, given]);
  useEffect(() => {
    if (still || held.current.length === 0) return;
    const more = held.current;
    held.current = [];
    setItems((l) => [...l, ...more].slice(-most));
  }, [still]);
  const rows = [...items].reverse().filter((e) => matches(e.kind, e.subject, e.text, ...Object.values(e.fields)));
  return (
    <>
      <Title sub={state === "live" ? t("shownNewest", { n: number(rows.length) }) : t("reading")}>{t("events")}</Title>
      <Alarms />
      <Filter label={t("filterEvents")} />
      <div class="row wrap">
        <form onSubmit={(e) => { e.preventDefault(); setQuery({ kind: typed.trim() }); }} class="row"><input aria-label={t("kind")} placeholder="node.*,group.short" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} onBlur={() => setQuery({ kind: typed.trim() })} /></form>
        {["node.*", "worker.*", "queue.*", "group.*", "schedule.*", "audit.*"].map((k) => <button type="button" key={k} aria-pressed={kind === k} onClick={() => setQuery({ kind: kind === k ? null : k })}>{k}</button>)}
        <div class="choice" role="group" aria-label={t("span")}>{Object.keys(spans).map((s) => <button type="button" key={s} aria-pressed={s === chosen} onClick={() => setQuery({ span: s === "24h" ? null : s })}>{s}</button>)}</div>
      </div>
      <Fault error={error} />
      {rows.length === 0 ? state === "live" && <Empty command={`rota events -f --server ${base.replace(/\/$/, "")}`}>{t("noEvents")}</Empty> : <Table caption={t("events")} rows={rows.slice(0, 1000)} id={(e) => String(e.seq)} columns={[
        { key: "time", head: t("time"), cell: (e) => <When at={e.time} /> },
        { key: "kind", head: t("kind"), cell: (e) => <a class="mono" href={to(["events"], { kind: e.kind, span: chosen })}><T s={e.kind} /></a> },
        { key: "subject", head: t("subject"), cell: (e) => { const p = subjectPlace(e); return p ? <a href={p}><T s={e.subject} /></a> : <T s={e.subject} />; } },
        { key: "text", head: t("text"), grow: true, cell: (e) => <T s={e.text} /> },
        { key: "fields", head: t("fields"), cell: (e) => (Object.keys(e.fields).length ? <details><summary>{number(Object.keys(e.fields).length)}</summary><dl class="mini">{Object.entries(e.fields).map(([k, v]) => <div key={k}><dt><T s={k} /></dt><dd><T s={v} /></dd></div>)}</dl></details> : "") },
      ]} />}
      {rows.length > 1000 && <p class="quiet pad">{t("leftOut", { n: number(rows.length - 1000) })}</p>}
    </>
  );
}
