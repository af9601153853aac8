// Alarms that stand: events that tell the beginning of something whose end nobody has told.
import { get, query } from "./api";
import { number, t } from "./i18n";
import { useShared, type Page } from "./load";
import { subjectPlace, type EventItem } from "./events";
import { Table } from "./table";
import { T } from "./text";
import { When, now } from "./time";
import { Fault, Mark, Panel } from "./ui";

const gone = ["node.online", "node.offline"];

// ends are, for each alarm, the events about the same subject that end it: what is deleted or gone is none either.
const ends: Record<string, string[]> = {
  "node.unreachable": ["node.reachable", ...gone], "alarm.raised": ["alarm.over", ...gone], "store.full": ["store.ok", ...gone], "budget.broken": ["budget.restored"],
  "group.short": ["group.ok", "audit.group.delete"], "source.failed": ["source.ok", "audit.group.delete"], "notifier.failed": ["notifier.ok", "audit.notifier.delete"],
};
const kinds = [...new Set(Object.entries(ends).flatMap(([k, over]) => [k, ...over]))].join(",");
const reach = 30 * 864e5, mostPages = 20;

// standing plays events, oldest first.
export function standing(events: EventItem[], stands: EventItem[]): EventItem[] {
  let out = stands;
  for (const e of events) {
    out = out.filter((s) => s.subject !== e.subject || !(s.kind === e.kind || ends[s.kind].includes(e.kind)));
    if (Object.hasOwn(ends, e.kind)) out = [...out, e];
  }
  return out;
}

// Known is what was read so far; the next reading begins with the last event of it, which changes nothing when it is
// played once more.
type Known = { since: string; stands: EventItem[]; cut: boolean };

export function useAlarms() {
  return useShared<Known>("v1/events#alarms", 15_000, async (_, signal, last) => {
    let { since, stands } = last ?? { since: new Date(now.peek() - reach).toISOString(), stands: [] as EventItem[] };
    let cursor = "", n = 0;
    do {
      const page = await get<Page<EventItem>>("v1/events" + query({ kind: kinds, since: cursor ? undefined : since, limit: 1000, cursor }), { signal });
      stands = standing(page.items, stands);
      since = page.items.at(-1)?.time ?? since;
      cursor = page.next;
    } while (cursor && ++n < mostPages);
    return { since, stands, cut: cursor !== "" };
  });
}

export function Alarms() {
  const alarms = useAlarms(), all = alarms.data?.stands ?? [];
  return (
    <Panel title={t("alarms")} side={alarms.data && <Mark state={all.length ? "failed" : "done"} bare />}>
      <Fault error={alarms.error} />
      {alarms.data?.cut && <p class="pad warn-text">{t("alarmsCut")}</p>}
      {alarms.data && (all.length === 0 ? <p class="pad quiet">{t("noAlarms")}</p> : <Table caption={t("alarms")} rows={[...all].reverse()} id={(e) => String(e.seq)} columns={[
        { key: "time", head: t("since"), cell: (e) => <When at={e.time} /> },
        { key: "kind", head: t("kind"), cell: (e) => <span class="mono bad-text"><T s={e.kind} /></span> },
        { key: "subject", head: t("subject"), cell: (e) => { const p = subjectPlace(e); return p ? <a href={p}><T s={e.subject} /></a> : <T s={e.subject} />; } },
        { key: "text", head: t("text"), grow: true, cell: (e) => <T s={e.text} /> },
      ]} />)}
    </Panel>
  );
}

// AlarmLine says on the overview that some stand.
export function AlarmLine() {
  const n = useAlarms().data?.stands.length ?? 0;
  return n > 0 ? <p class="bad-text" role="status"><Mark state="failed" bare /> <a href="#/events">{t("alarmsStand", { n: number(n) })}</a></p> : null;
}
