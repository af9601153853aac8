// Submitting one task, or another one like one that stands.
import { useState } from "preact/hooks";
import { call, may } from "./api";
import { t } from "./i18n";
import { go } from "./route";
import { Dialog, Fault, Field } from "./ui";

export type Draft = { queue: string; stage?: string; context?: string; priority?: string; group_key?: string; meta?: Record<string, string> };

function Button({ open }: { open: () => void }) {
  return may("submit") ? <button type="button" class="main" onClick={open}>{t("submitTask")}</button> : null;
}

function Form({ begin, close }: { begin: Draft; close: () => void }) {
  const [queue, setQueue] = useState(begin.queue);
  const [stage, setStage] = useState(begin.stage ?? "");
  const [context, setContext] = useState(begin.context ?? "{}");
  const [delay, setDelay] = useState("");
  const [startWithin, setStartWithin] = useState("");
  const [priority, setPriority] = useState(begin.priority && begin.priority !== "0s" ? begin.priority : "");
  const [key, setKey] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  let wrong = "";
  try { if (context.trim()) JSON.parse(context); } catch (err) { wrong = (err as Error).message; }
  const submit = async () => {
    setBusy(true);
    setError(null);
    // The context goes as it was written: its text is kept byte for byte.
    const fields = Object.entries({ queue, stage, delay, start_within: startWithin, priority, key, group_key: begin.group_key }).filter(([, v]) => v).map(([k, v]) => JSON.stringify(k) + ":" + JSON.stringify(v));
    const raw = '{"tasks":[{' + [...fields, ...(begin.meta ? ['"meta":' + JSON.stringify(begin.meta)] : []), ...(context.trim() ? ['"context":' + context.trim()] : [])].join(",") + "}]}";
    try {
      const answer = JSON.parse(await call("POST", "v1/tasks", { raw, need: "submit" })) as { tasks: { id: string }[] };
      close();
      go(["tasks", answer.tasks[0].id]);
    } catch (err) { setError(err); setBusy(false); }
  };
  return (
    <Dialog title={t("submitTask")} close={close} wide>
      <form class="grid" onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <Field label={t("queue")}><input required value={queue} onInput={(e) => setQueue(e.currentTarget.value)} /></Field>
        <Field label={t("stage")}><input value={stage} onInput={(e) => setStage(e.currentTarget.value)} /></Field>
        <Field label={t("delay")}><input placeholder="10m" value={delay} onInput={(e) => setDelay(e.currentTarget.value)} /></Field>
        <Field label={t("startWithin")} hint={t("startWithinHint")}><input placeholder="30s" value={startWithin} onInput={(e) => setStartWithin(e.currentTarget.value)} /></Field>
        <Field label={t("priority")} hint={t("priorityHint")}><input placeholder="30s" value={priority} onInput={(e) => setPriority(e.currentTarget.value)} /></Field>
        <Field label={t("key")} hint={t("keyHint")}><input value={key} onInput={(e) => setKey(e.currentTarget.value)} /></Field>
        <div class="full"><Field label={t("context")} hint={wrong || undefined}><textarea rows={10} class="mono" spellcheck={false} aria-invalid={!!wrong} value={context} onInput={(e) => setContext(e.currentTarget.value)} /></Field></div>
        <div class="full"><Fault error={error} /></div>
        <div class="row end full"><button type="button" onClick={close}>{t("cancelThis")}</button><button type="submit" class="main" disabled={busy || !!wrong}>{t("submit")}</button></div>
      </form>
    </Dialog>
  );
}

export const Submit = { Button, Form };
