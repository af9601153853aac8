import { useMemo, useState } from "preact/hooks";
import { call, get, may, part, query, send } from "./api";
import { known, number, t } from "./i18n";
import { useLoad, usePages } from "./load";
import { lang } from "./prefs";
import { go, route, setQuery, to } from "./route";
import { DueRule, type Schedule } from "./schedules";
import { Table } from "./table";
import { T, plain } from "./text";
import { Dur, When, clock, now, rough } from "./time";
import { Act, Dialog, Facts, Fault, Field, Mark, N, Panel, Title } from "./ui";

type Preview = { times: string[]; notes: { at: string; text: string }[]; sentence: string; chinese: string; zone: string };
type Fire = { at: string | null; through: string | null; count: number; origin: string; outcome: string; reason: string; task: string; ended: string; node: string; fired: string | null };

const coming = 1000;

export function ScheduleScreen({ name }: { name: string }) {
  const path = "v1/schedules/" + part(name);
  const schedule = useLoad<Schedule>(path, 4000);
  const s = schedule.data;
  // A preview knows no span: it is asked for what comes from the schedule's start on, and what is behind its end is left out, as is what
  // is over since it was read.
  const starts = s?.starts ? Date.parse(s.starts) : 0, ends = s?.ends ? Date.parse(s.ends) : Infinity;
  const from = starts > now.value ? { from: new Date(starts - 1).toISOString() } : {};
  const rule = s && s.cron ? JSON.stringify({ cron: s.cron, zone: s.zone, name, count: coming, ...from, ...(s.calendar ? { calendar: s.calendar } : {}) }) : null;
  const preview = useLoad<Preview>(rule, 600_000, async (raw, signal) => JSON.parse(await call("POST", "v1/schedules/preview", { raw, signal, need: "read" })) as Preview);
  const all = preview.data?.times ?? [], over = all.findIndex((at) => Date.parse(at) > now.value);
  const times = useMemo(() => (over < 0 ? [] : all.slice(over).filter((at) => Date.parse(at) <= ends)), [preview.data, over, ends]);
  const [filling, setFilling] = useState(false);
  const [audited, setAudited] = useState(false);
  return (
    <>
      <Title crumbs={[[t("schedules"), "#/schedules"]]} sub={s?.title ? <T s={s.title} /> : undefined} side={s && <>
        <Act label={t("runNow")} does={async () => { const f = await send<Fire>("POST", path + "/run"); schedule.again(); return f.task ? t("submittedTask", { id: f.task }) : f.reason; }} />
        {s.paused ? <Act label={t("resume")} kind="main" does={() => send("POST", path + "/resume")} after={schedule.again} /> : <Act label={t("pause")} does={() => send("POST", path + "/pause")} after={schedule.again} ask={t("pauseSchedule")} />}
        {may("operate") && s.cron && <button type="button" onClick={() => setFilling(true)}>{t("backfill")}</button>}
        <button type="button" aria-pressed={audited} onClick={() => setAudited(!audited)}>{t("audit")}</button>
        <Act label={t("remove")} kind="bad" does={() => send("DELETE", path)} after={() => go(["schedules"])} ask={t("removeSchedule")} />
      </>}><T s={name} /> {s?.paused && <Mark state="paused" />}</Title>
      <Fault error={schedule.error} again={schedule.again} />
      {filling && <Backfill path={path} close={() => { setFilling(false); schedule.again(); }} />}
      {s && <>
        <Strip path={path} zone={s.zone} />
        {audited && <Audit path={path} />}
        <div class="two">
          <Panel title={t("whenDue")}>
            <Facts of={[
              [t("rule"), <DueRule s={s} />], [t("sentence"), preview.data && <T s={lang.value === "zh" ? preview.data.chinese : preview.data.sentence} />], [t("zone"), <T s={s.zone} />], [t("calendar"), s.calendar && <T s={s.calendar} />],
              [t("next"), s.next && <><When at={s.next} />{s.next_chosen && " " + t("chosen")}<div class="quiet">{clock(Date.parse(s.next), s.zone)} <T s={s.zone} /></div></>], [t("last"), s.last && <When at={s.last} />],
              [t("starts"), s.starts && <When at={s.starts} />], [t("ends"), s.ends && <When at={s.ends} />],
              [t("queue"), <a href={to(["queues", s.queue])}><T s={s.queue} /></a>], [t("stage"), s.stage && <T s={s.stage} />], [t("overlap"), known("policy", s.overlap)], [t("misfire"), known("policy", s.misfire)],
              [t("misfireWindow"), <Dur d={s.misfire_window} />], [t("onDead"), known("policy", s.on_dead)], [t("responsible"), s.responsible && <T s={s.responsible} />], [t("node"), s.owner ? <T s={s.owner} /> : null],
            ]} />
          </Panel>
          {s.cron ? <Panel title={t("nextTimes")} side={<span class="quiet"><T s={s.zone} /></span>}>
            <Fault error={preview.error} />
            {preview.data && <>
              {preview.data.notes.length > 0 && <ul class="reasons">{preview.data.notes.slice(0, 2).map((n) => <li key={n.at}><strong>{clock(Date.parse(n.at), s.zone)}</strong> <T s={n.text} /></li>)}</ul>}
              {times.length === 0 && <p class="pad quiet">{t("noTimes")}</p>}
              <ol class="times">{times.slice(0, 12).map((at) => <li key={at}><time dateTime={at} title={at}>{clock(Date.parse(at), s.zone)}</time> <span class="quiet">{rough(now.value - Date.parse(at))}</span></li>)}</ol>
            </>}
          </Panel> : null}
        </div>
        {s.cron && times.length > 1 && <Density times={times} zone={s.zone} />}
        <Fires path={path} zone={s.zone} />
      </>}
    </>
  );
}

// Strip is the last 30 due times, oldest first, each by what became of it.
function Strip({ path, zone }: { path: string; zone: string }) {
  const fires = useLoad<{ items: Fire[] }>(path + "/fires?limit=30", 4000);
  if (!fires.data || fires.data.items.length === 0) return null;
  return (
    <div class="strip" role="list" aria-label={t("last30")}>{[...fires.data.items].reverse().map((f) => {
      const state = f.ended && f.ended !== "fired" ? f.ended : f.outcome;
      const text = (f.at ? clock(Date.parse(f.at), zone) : "") + " " + known("state", state) + (f.reason ? ": " + plain(f.reason) : "");
      return <span role="listitem" key={(f.at ?? "") + f.origin + f.fired} title={text}>{f.task ? <a href={to(["tasks", f.task])} aria-label={text} class={"tick s-" + state}><Mark state={state} bare /></a> : <span class={"tick s-" + state}><Mark state={state} bare /></span>}</span>;
    })}</div>
  );
}

// zoned is the zone, or UTC where the browser does not know it: a node may know newer ones.
function zoned(zone: string): string {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: zone });
    return zone;
  } catch { return "UTC"; }
}

// Density counts the coming due times by hour and day of the week, in the schedule's zone.
function Density({ times, zone }: { times: string[]; zone: string }) {
  const by = zoned(zone || "UTC");
  const cells = useMemo(() => {
    const form = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", hourCycle: "h23", timeZone: by });
    const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const sum = Array.from({ length: 7 }, () => new Array<number>(24).fill(0));
    for (const at of times) {
      const parts = form.formatToParts(new Date(at));
      const day = days.indexOf(parts.find((p) => p.type === "weekday")!.value), hour = Number(parts.find((p) => p.type === "hour")!.value);
      if (day >= 0) sum[day][hour]++;
    }
    return sum;
  }, [times, by]);
  const top = Math.max(1, ...cells.flat());
  const name = (d: number) => new Intl.DateTimeFormat(lang.value === "zh" ? "zh-CN" : "en-GB", { weekday: "short", timeZone: "UTC" }).format(new Date(Date.UTC(2024, 0, 1 + d)));
  return (
    <Panel title={t("density")} side={<span class="quiet">{t("ofNextTimes", { n: number(times.length) })}{by !== (zone || "UTC") && " · " + by}</span>}>
      <div class="scroll" tabIndex={0} role="region" aria-label={t("density")}>
        <table class="density"><caption class="sr">{t("density")}</caption><thead><tr><td />{Array.from({ length: 24 }, (_, h) => <th scope="col" key={h}>{h}</th>)}</tr></thead>
          <tbody>{cells.map((row, d) => <tr key={d}><th scope="row">{name(d)}</th>{row.map((n, h) => <td key={h} class={"d" + (n === 0 ? 0 : Math.max(1, Math.ceil((n / top) * 4)))} title={String(n)}>{n > 0 ? n : ""}</td>)}</tr>)}</tbody></table>
      </div>
    </Panel>
  );
}

function Fires({ path, zone }: { path: string; zone: string }) {
  const outcome = route.value.query.get("outcome") ?? "";
  const list = usePages<Fire>(path + "/fires" + query({ outcome, limit: 50 }), 4000);
  return (
    <Panel title={t("fires")} side={<><span class="quiet"><T s={zone} /></span><nav class="tabs" aria-label={t("outcome")}>{["", "fired", "skipped", "missed", "queued"].map((o) => <button type="button" class="tab" key={o} aria-pressed={o === outcome} onClick={() => setQuery({ outcome: o })}>{o ? <Mark state={o} /> : t("all")}</button>)}</nav></>}>
      <Fault error={list.error} />
      {list.data && (list.data.length === 0 && !list.more ? <p class="pad quiet">{t("noFires")}</p> : <Table caption={t("fires")} rows={list.data} id={(f) => (f.at ?? "") + f.origin + f.fired} more={list.more} busy={list.reading} columns={[
        { key: "at", head: t("due"), cell: (f) => <><When at={f.at} zone={zone} />{f.count > 1 && <span class="quiet"> ×{number(f.count)}</span>}</> },
        { key: "outcome", head: t("outcome"), cell: (f) => <Mark state={f.outcome} /> },
        { key: "origin", head: t("origin"), cell: (f) => known("origin", f.origin) },
        { key: "fired", head: t("fired"), cell: (f) => <When at={f.fired} /> },
        { key: "ended", head: t("howItEnded"), cell: (f) => (f.ended ? <Mark state={f.ended} /> : <span class="quiet">–</span>) },
        { key: "task", head: t("task"), cell: (f) => (f.task ? <a class="mono" href={to(["tasks", f.task])}>{f.task}</a> : <span class="quiet">–</span>) },
        { key: "reason", head: t("why"), grow: true, cell: (f) => (f.reason ? <T s={f.reason} /> : "") },
        { key: "node", head: t("node"), cell: (f) => <T s={f.node} /> },
      ]} />)}
    </Panel>
  );
}

type Audited = { complete: boolean; from: string | null; to: string | null; demanded: number; fired: number; skipped: number; missed: number; queued: number; aside: number; holes: string[]; strays: string[]; late: string };

function Audit({ path }: { path: string }) {
  const a = useLoad<Audited>(path + "/audit", 0, (p, signal) => get<Audited>(p, { signal }));
  const x = a.data;
  return (
    <Panel title={t("audit")}>
      <Fault error={a.error} again={a.again} />
      {a.busy && <p class="pad quiet">{t("reading")}</p>}
      {x && <>
        <p class="pad"><Mark state={x.complete ? "done" : "failed"} bare /> {x.complete ? t("auditGood", { n: number(x.demanded) }) : t("auditBad", { h: number(x.holes.length), s: number(x.strays.length) })}</p>
        <Facts of={[[t("span"), <><When at={x.from} /> – <When at={x.to} /></>], [known("state", "fired"), <N n={x.fired} />], [known("state", "skipped"), <N n={x.skipped} />], [known("state", "missed"), <N n={x.missed} />], [known("state", "queued"), <N n={x.queued} />], [t("aside"), <N n={x.aside} />], [t("latest"), <Dur d={x.late} />],
          [t("holes"), x.holes.length ? x.holes.slice(0, 20).map((h) => <div key={h}><When at={h} /></div>) : null], [t("strays"), x.strays.length ? x.strays.slice(0, 20).map((h) => <div key={h}><When at={h} /></div>) : null]]} />
      </>}
    </Panel>
  );
}

function Backfill({ path, close }: { path: string; close: () => void }) {
  const local = (ms: number) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  const [from, setFrom] = useState(local(now.peek() - 864e5));
  const [until, setUntil] = useState(local(now.peek()));
  const [found, setFound] = useState<{ times: string[]; fired: number } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const body = (dry: boolean) => ({ from: new Date(from).toISOString(), to: new Date(until).toISOString(), dry_run: dry });
  const ask = async () => {
    setError(null);
    try { setFound(await send("POST", path + "/backfill", body(true))); } catch (err) { setFound(null); setError(err); }
  };
  return (
    <Dialog title={t("backfill")} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); void ask(); }} class="grid">
        <Field label={t("from")}><input type="datetime-local" required value={from} onInput={(e) => { setFrom(e.currentTarget.value); setFound(null); }} /></Field>
        <Field label={t("until")}><input type="datetime-local" required value={until} onInput={(e) => { setUntil(e.currentTarget.value); setFound(null); }} /></Field>
        <div class="row end full"><button type="submit">{t("countFirst")}</button></div>
      </form>
      <Fault error={error} />
      {found && <><p class="big" role="status">{t("backfillWords", { n: number(found.times.length), f: number(found.fired) })}</p><ol class="times">{found.times.slice(0, 10).map((x) => <li key={x}><When at={x} /></li>)}</ol></>}
      <div class="row end"><button type="button" onClick={close}>{t("close")}</button>
        {found && found.times.length > 0 && <Act label={t("backfill")} kind="main" does={async () => { await send("POST", path + "/backfill", body(false)); close(); }} />}</div>
    </Dialog>
  );
}
