// Changing tasks that neither run nor are over: one, or all that a filter selects.
import { useState } from "preact/hooks";
import { t, type Key } from "./i18n";
import { Dialog, Fault, Field } from "./ui";

// Values are the texts in the form. A field that is left as it was is not sent, so it stays as it is.
type Values = { priority: string; delay: string; start_within: string; max_attempts: string; group_key: string; meta: string; context: string };
export const nothing: Values = { priority: "", delay: "", start_within: "", max_attempts: "", group_key: "", meta: "", context: "" };

const short: [keyof Values, Key, string][] = [["priority", "priority", "30s"], ["delay", "delay", "10m"], ["start_within", "startWithin", "30s"], ["max_attempts", "maxAttempts", "5"], ["group_key", "groupKey", ""]];

// taken is the JSON that takes a field away: the task has none, or goes by its queue.
const taken = { start_within: '"0s"', max_attempts: "0", group_key: '""', meta: "{}", context: "null" };
type Taken = keyof typeof taken;

// set is the JSON of what was changed; "" = nothing was. The context goes as it was written, byte for byte.
function set(was: Values, is: Values, away: Set<Taken>): string {
  const out: string[] = [];
  for (const k of Object.keys(is) as (keyof Values)[]) {
    const gone = away.has(k as Taken);
    if (!gone && is[k] === was[k]) continue;
    const empty = !is[k].trim() && k in taken;
    const raw = gone || empty ? taken[k as Taken] : k === "context" || k === "meta" ? is[k].trim() : k === "max_attempts" ? String(Number(is[k])) : JSON.stringify(is[k] || "0s");
    out.push(JSON.stringify(k) + ":" + raw);
  }
  return out.length ? "{" + out.join(",") + "}" : "";
}

function trouble(text: string): string {
  try { if (text.trim()) JSON.parse(text); return ""; } catch (err) { return (err as Error).message; }
}

// EditForm asks what to change; does is given the JSON of it. What was changed is told by the values that it opened with: those
// of the task may be others by now, and are to stay.
export function EditForm({ begin, title, go, does, close }: { begin: Values; title: string; go: string; does: (set: string) => Promise<void>; close: () => void }) {
  const [was] = useState(begin);
  const [is, setIs] = useState(was);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [away, setAway] = useState(new Set<Taken>());
  const wrong = { context: away.has("context") ? "" : trouble(is.context), meta: away.has("meta") ? "" : trouble(is.meta) };
  const what = wrong.context || wrong.meta ? "" : set(was, is, away);
  const run = async () => {
    setBusy(true);
    setError(null);
    try { await does(what); } catch (err) { setError(err); setBusy(false); }
  };
  const text = (k: keyof Values) => ({ value: is[k], disabled: away.has(k as Taken), onInput: (e: { currentTarget: { value: string } }) => setIs({ ...is, [k]: e.currentTarget.value }) });
  const none = (k: keyof Values, label: string) => k in taken && <label class="check small"><input type="checkbox" aria-label={t("takeAwayOf", { f: label })} checked={away.has(k as Taken)}
    onChange={(e) => { const next = new Set(away); if (e.currentTarget.checked) next.add(k as Taken); else next.delete(k as Taken); setAway(next); }} /> {t(k === "max_attempts" ? "asQueue" : "takeAway")}</label>;
  return (
    <Dialog title={title} close={close} wide>
      <p class="quiet">{t("editWords")}</p>
      <form class="grid" onSubmit={(e) => { e.preventDefault(); void run(); }}>
        {short.map(([k, label, sample]) => <div key={k}><Field label={t(label)}><input inputMode={k === "max_attempts" ? "numeric" : "text"} pattern={k === "max_attempts" ? "[0-9]+" : undefined} placeholder={sample} {...text(k)} /></Field>{none(k, t(label))}</div>)}
        <div><Field label={t("meta")} hint={wrong.meta || t("metaHint")}><input class="mono" spellcheck={false} aria-invalid={!!wrong.meta} placeholder='{"customer":"7"}' {...text("meta")} /></Field>{none("meta", t("meta"))}</div>
        <div class="full"><Field label={t("context")} hint={wrong.context || undefined}><textarea rows={10} class="mono" spellcheck={false} aria-invalid={!!wrong.context} {...text("context")} /></Field>{none("context", t("context"))}</div>
        <div class="full"><Fault error={error} /></div>
        <div class="row end full"><button type="button" onClick={close}>{t("cancelThis")}</button><button type="submit" class="main" disabled={busy || !what}>{go}</button></div>
      </form>
    </Dialog>
  );
}
