// Sending the signal that a task waits for.
import { useState } from "preact/hooks";
import { access, call, may, part } from "./api";
import { t } from "./i18n";
import { T } from "./text";
import { Dialog, Facts, Fault, Field, say } from "./ui";

export type Awaits = { tasks?: boolean; signal?: string; key?: string; children?: "all" | "first_dead"; until?: string; else?: string };
export type Awaited = { id: string; signal: string; key?: string };

// awaited is the signal that may be sent here. One by name and key may go to a task of any queue, so tokens with a scope may not send it.
export function awaited(x: { id: string; state: string; awaits?: Awaits }): Awaited | null {
  const a = x.awaits;
  if (x.state !== "blocked" || !a?.signal || !may("submit") || (a.key && access.value?.scope)) return null;
  return { id: x.id, signal: a.signal, key: a.key };
}

// payloadOf is the JSON that goes, byte for byte as it was written; what is to be text becomes a JSON string. wrong says why it is none.
function payloadOf(text: string, asText: boolean): { raw: string; wrong: string } {
  if (asText) return { raw: JSON.stringify(text), wrong: "" };
  try { if (text.trim()) JSON.parse(text); } catch (err) { return { raw: "", wrong: (err as Error).message }; }
  return { raw: text.trim(), wrong: "" };
}

// SignalForm stays open while the task goes on meanwhile: the node says then what becomes of the signal.
export function SignalForm({ of: a, close, after }: { of: Awaited; close: () => void; after: () => void }) {
  const [text, setText] = useState("");
  const [asText, setAsText] = useState(false);
  const [once, setOnce] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const { raw, wrong } = payloadOf(text, asText);
  const submit = async () => {
    setBusy(true);
    setError(null);
    const fields: [string, string][] = a.key ? [["key", JSON.stringify(a.key)]] : [["name", JSON.stringify(a.signal)]];
    if (!a.key && once) fields.push(["key", JSON.stringify(once)]);
    if (raw) fields.push(["payload", raw]);
    const path = a.key ? "v1/signals/" + part(a.signal) : "v1/tasks/" + part(a.id) + "/signal";
    try {
      const got = JSON.parse(await call("POST", path, { raw: "{" + fields.map(([k, v]) => JSON.stringify(k) + ":" + v).join(",") + "}", need: "submit" })) as { delivered: boolean; repeated?: boolean };
      say(t(got.repeated ? "signalRepeated" : got.delivered ? "signalDelivered" : "signalKept"));
      close();
      after();
    } catch (err) { setError(err); setBusy(false); }
  };
  return (
    <Dialog title={t("sendSignal")} close={close} wide>
      <form class="grid" onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <div class="full"><Facts of={[[t("signal"), <T s={a.signal} />], [t("key"), a.key && <T s={a.key} />]]} /></div>
        <div class="full"><Field label={t("payload")} hint={wrong || t("payloadHint")}><textarea rows={6} class="mono" spellcheck={false} aria-invalid={!!wrong} value={text} onInput={(e) => setText(e.currentTarget.value)} /></Field></div>
        <label class="check full"><input type="checkbox" checked={asText} onChange={(e) => setAsText(e.currentTarget.checked)} /> {t("asText")}</label>
        {a.key ? <p class="full quiet">{t("signalByKey")}</p> : <div class="full"><Field label={t("onceKey")} hint={t("onceKeyHint")}><input value={once} onInput={(e) => setOnce(e.currentTarget.value)} /></Field></div>}
        <div class="full"><Fault error={error} /></div>
        <div class="row end full"><button type="button" onClick={close}>{t("cancelThis")}</button><button type="submit" class="main" disabled={busy || !!wrong}>{t("sendSignal")}</button></div>
      </form>
    </Dialog>
  );
}
