import { useState } from "preact/hooks";
import { may, part, send, call } from "./api";
import { QueueForecast } from "./forecast";
import { number, t, type Key } from "./i18n";
import { Keys } from "./keys";
import { useLoad } from "./load";
import { flow, held, type Queue } from "./queues";
import { Rate } from "./overview";
import { go, to } from "./route";
import { Band, SpanChoice, Throughput, useStats } from "./stats";
import { Submit } from "./submit";
import { Explain } from "./task";
import { T } from "./text";
import { Age, Dur } from "./time";
import { Act, Facts, Fault, Field, Mark, N, Panel, Title, say } from "./ui";
import { states } from "./tasks";

export function QueueScreen({ name }: { name: string }) {
  const path = "v1/queues/" + part(name);
  const queue = useLoad<Queue>(path, 2000);
  const stats = useStats({ queue: name });
  const [editing, setEditing] = useState(false);
  const [adding, setAdding] = useState(false);
  const q = queue.data;
  return (
    <>
      <Title crumbs={[[t("queues"), "#/queues"]]} sub={q?.title ? <T s={q.title} /> : undefined} side={q && <>
        {q.paused ? <Act label={t("resume")} kind="main" does={() => send("POST", path + "/resume")} after={queue.again} />
          : <Act label={t("pause")} does={() => send("POST", path + "/pause")} after={queue.again} ask={t("pauseQueue")} />}
        <Submit.Button open={() => setAdding(true)} />
        <Act label={t("remove")} kind="bad" need="destroy" does={() => call("DELETE", path, { need: "destroy" })} after={() => go(["queues"])} ask={t("removeQueue")} />
      </>}><T s={name} /> {q && (q.paused ? <Mark state="paused" /> : held(q) && <Mark state="limited" />)}</Title>
      {adding && <Submit.Form close={() => setAdding(false)} begin={{ queue: name }} />}
      <Fault error={queue.error} again={queue.again} />
      {q && <>
        <div class="tiles small">
          <a class="tile" href={to(["tasks"], { queue: name, state: "ready" })}><span class="tile-label">{t("oldestReady")}</span><span class="tile-value"><Age since={q.oldest_ready} /></span></a>
          {states.map((s) => <a class={"tile" + ((s === "dead" || s === "expired") && q.counts[s] ? " bad" : "")} key={s} href={to(["tasks"], { queue: name, state: s })}><span class="tile-label">{t(s as Key)}</span><span class="tile-value">{number(q.counts[s] ?? 0)}</span></a>)}
          <div class="tile"><span class="tile-label">{t("inRate")}</span><span class="tile-value"><Rate n={flow(name, (l) => l.submitted)} /></span></div>
          <div class="tile"><span class="tile-label">{t("outRate")}</span><span class="tile-value"><Rate n={flow(name, (l) => l.done)} /></span></div>
        </div>
        <div class="two">
          <Panel title={t("throughput")} side={<SpanChoice />}><Throughput stats={stats} step={stats.step} /></Panel>
          <Panel title={t("waitTime")}><Band stats={stats} step={stats.step} of="wait" /></Panel>
        </div>
        <div class="two">
          <div class="stack"><Explain path={path + "/explain"} /><QueueForecast name={name} /></div>
          <Panel title={t("runTime")}><Band stats={stats} step={stats.step} of="run" /></Panel>
        </div>
        {(q.fair || q.limits) && <Keys path={path} fair={q.fair} />}
        <Panel title={t("settings")} side={may("operate") && !editing && <button type="button" class="small" onClick={() => setEditing(true)}>{t("edit")}</button>}>
          {editing ? <Settings q={q} path={path} close={() => { setEditing(false); queue.again(); }} /> : <Facts of={[
            [t("title"), q.title && <T s={q.title} />], [t("owner"), q.owner && <T s={q.owner} />],
            [t("timeout"), <Dur d={q.timeout} />], [t("silence"), <Dur d={q.silence} />], [t("maxAttempts"), <N n={q.max_attempts} />],
            [t("retryPolicy"), t("retryWords", { a: q.retry.initial, f: q.retry.factor, b: q.retry.max, j: number(q.retry.jitter * 100) })],
            [t("holdLimit"), <N n={q.hold_limit} />], [t("pollInterval"), <Dur d={q.poll_interval} />], [t("contextLimit"), number(q.context_limit) + " B"],
            [t("retention"), <Dur d={q.retention} />], [t("retentionDead"), <Dur d={q.retention_dead} />],
            [t("maxRunning"), q.max_running > 0 && t("runOf", { n: number(q.limits?.running ?? 0), m: number(q.max_running) })],
            [t("beginRate"), q.rate && <T s={q.rate} />], [t("burst"), q.rate && <N n={q.burst || Number.parseInt(q.rate, 10)} />],
            [t("keyMaxRunning"), q.per_key.max_running > 0 && (q.limits?.full_keys ? t("keysFull", { m: number(q.per_key.max_running), n: number(q.limits.full_keys) }) : <N n={q.per_key.max_running} />)],
            [t("keyRate"), q.per_key.rate && <T s={q.per_key.rate} />], [t("keyBurst"), q.per_key.rate && <N n={q.per_key.burst || Number.parseInt(q.per_key.rate, 10)} />],
            [t("keyStops"), q.per_key.on_dead === "stop" && t("yes")],
            [t("fair"), q.fair && t("yes")],
            [t("finalQueue"), q.final_queue && <a href={to(["queues", q.final_queue])}><T s={q.final_queue} /></a>],
          ]} />}
        </Panel>
      </>}
    </>
  );
}

type Text = "title" | "owner" | "timeout" | "silence" | "poll_interval" | "retention" | "retention_dead" | "final_queue" | "rate" | "per_key.rate";
const texts: [Text, Key][] = [["title", "title"], ["owner", "owner"], ["timeout", "timeout"], ["silence", "silence"], ["poll_interval", "pollInterval"], ["retention", "retention"], ["retention_dead", "retentionDead"], ["final_queue", "finalQueue"], ["rate", "beginRate"], ["per_key.rate", "keyRate"]];
const numbers = [["max_attempts", "maxAttempts"], ["hold_limit", "holdLimit"], ["context_limit", "contextLimit"], ["max_running", "maxRunning"], ["burst", "burst"], ["per_key.max_running", "keyMaxRunning"], ["per_key.burst", "keyBurst"]] as const;

// Settings sends only what was changed: the others stay, also when somebody else changes them meanwhile.
function Settings({ q, path, close }: { q: Queue; path: string; close: () => void }) {
  const [form, setForm] = useState<Record<string, string>>({});
  const [error, setError] = useState<unknown>(null);
  const was = (k: string): string => {
    const [name, field] = k.split(".");
    const v: unknown = q[name as keyof Queue];
    return String((field ? (v as Record<string, unknown>)[field] : v) ?? "");
  };
  const value = (k: string) => form[k] ?? was(k);
  const input = (k: string, label: string, number = false) => {
    const props = { value: value(k), onInput: (e: { currentTarget: HTMLInputElement }) => setForm({ ...form, [k]: e.currentTarget.value }) };
    return <Field label={label} key={k}>{number ? <input type="number" step="any" {...props} /> : <input type="text" {...props} />}</Field>;
  };
  const save = async () => {
    const body: Record<string, unknown> = {};
    for (const [k, v] of Object.entries(form)) {
      if (v === was(k)) continue;
      const number = numbers.some(([n]) => n === k) || k === "retry.factor" || k === "retry.jitter";
      const is = number ? Number(v) : k === "fair" ? v === "true" : k === "per_key.on_dead" ? (v === "stop" ? v : "continue") : v;
      const [name = k, field] = k.split(".");
      body[name] = field ? { ...(body[name] as object | undefined), [field]: is } : is;
    }
    if (Object.keys(body).length === 0) { close(); return; }
    try { await send("PUT", path, body); say(t("saved")); close(); } catch (err) { setError(err); }
  };
  return (
    <form class="grid pad" onSubmit={(e) => { e.preventDefault(); void save(); }}>
      {texts.map(([k, label]) => input(k, t(label)))}
      {numbers.map(([k, label]) => input(k, t(label), true))}
      {input("retry.initial", t("retryInitial"))}{input("retry.max", t("retryMax"))}{input("retry.factor", t("retryFactor"), true)}{input("retry.jitter", t("retryJitter"), true)}
      <label class="check"><input type="checkbox" checked={value("fair") === "true"} onChange={(e) => setForm({ ...form, fair: String(e.currentTarget.checked) })} /> {t("fair")}</label>
      <label class="check"><input type="checkbox" checked={value("per_key.on_dead") === "stop"} onChange={(e) => setForm({ ...form, "per_key.on_dead": e.currentTarget.checked ? "stop" : "continue" })} /> {t("keyStops")}</label>
      <div class="full"><Fault error={error} /></div>
      <div class="row end full"><button type="button" onClick={close}>{t("cancelThis")}</button><button type="submit" class="main">{t("save")}</button></div>
    </form>
  );
}
