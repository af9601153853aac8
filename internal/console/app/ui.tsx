// The small parts that all screens are made of.
import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { may, Problem, whole, type Right } from "./api";
import { known, number, t } from "./i18n";
import { T, plain } from "./text";

export type Tone = "good" | "warn" | "bad" | "busy" | "idle";

const shapes: Record<string, string> = {
  good: "M2 6.5 5 9.5 10.5 3",
  bad: "M3 3 9 9M9 3 3 9",
  warn: "M6 1.5 11 10.5H1ZM6 5v2.2M6 8.8v.4",
  busy: "M3.5 2v8L10 6Z",
  idle: "M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8Z",
  clock: "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9ZM6 3.5V6l1.8 1.2",
  stop: "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9ZM3 3l6 6",
  pause: "M4 2.5v7M8 2.5v7",
};

const looks: Record<string, [Tone, string]> = {
  waiting: ["idle", "clock"], ready: ["idle", "idle"], running: ["busy", "busy"], done: ["good", "good"], dead: ["bad", "bad"],
  cancelled: ["idle", "stop"], expired: ["bad", "clock"], blocked: ["idle", "pause"], active: ["good", "good"], working: ["good", "good"], draining: ["warn", "pause"],
  drained: ["idle", "pause"], silent: ["bad", "warn"], left: ["idle", "stop"], unreachable: ["bad", "warn"], offline: ["bad", "bad"],
  paused: ["warn", "pause"], pending: ["warn", "clock"], starting: ["busy", "idle"], failed: ["bad", "bad"], moving: ["busy", "busy"],
  ending: ["idle", "stop"], fired: ["good", "good"], skipped: ["idle", "stop"], missed: ["bad", "warn"], queued: ["busy", "clock"],
  next: ["good", "good"], retry: ["warn", "warn"], snooze: ["idle", "clock"], fail: ["bad", "bad"], release: ["idle", "stop"],
  lost: ["bad", "warn"], timeout: ["bad", "clock"], moved: ["idle", "busy"], edited: ["idle", "idle"], woken: ["good", "busy"], replayed: ["idle", "idle"], removed: ["idle", "stop"],
  unserved: ["bad", "warn"], full: ["warn", "warn"], limited: ["warn", "pause"], open: ["good", "good"], rate: ["warn", "clock"], order: ["busy", "clock"], stopped: ["bad", "stop"], sleeping: ["idle", "clock"], empty: ["idle", "idle"], late: ["bad", "clock"],
};

// Mark is a state as colour, shape and word.
export function Mark({ state, bare, tone }: { state: string; bare?: boolean; tone?: Tone }) {
  const [of, shape] = looks[state] ?? ["idle", "idle"];
  return <span class={"mark " + (tone ?? of)}><Icon d={shapes[shape]} />{bare ? <span class="sr">{known("state", state)}</span> : known("state", state)}</span>;
}

export function Icon({ d }: { d: string }) {
  return <svg class="icon" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><path d={d} /></svg>;
}

// N is an exact number; with an address it leads to the list that explains it.
export function N({ n, to, tone, digits }: { n: number; to?: string; tone?: Tone; digits?: number }) {
  const text = number(n, digits);
  const c = "n" + (n === 0 ? " zero" : tone ? " " + tone : "");
  return to ? <a class={c} href={to}>{text}</a> : <span class={c}>{text}</span>;
}

export function Copy({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); }
    catch {
      const area = document.createElement("textarea");
      area.value = text; document.body.append(area); area.select();
      document.execCommand("copy"); area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <button type="button" class="small" onClick={copy}>{done ? t("copied") : t("copy")}</button>;
}

export function Command({ text }: { text: string }) {
  return <div class="command"><code tabIndex={0}>{text}</code><Copy text={text} /></div>;
}

// Empty says what is not there, and what to do about it.
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return <div class="empty"><p>{children}</p>{command && <Command text={command} />}</div>;
}

export function Fault({ error, again }: { error: unknown; again?: () => void }) {
  if (!error) return null;
  const p = error instanceof Problem ? error : null;
  const title = p?.status === 0 ? t("noAnswer") : p?.status === 403 ? t("forbidden") : p?.status === 404 ? t("notFound") : t("refused");
  const lacking = p?.status === 403 && p.need ? t("needs", { right: known("right", p.need) }) : "";
  return (
    <div class="fault" role="alert">
      <Icon d={shapes.warn} /><div><strong>{title}</strong> <T s={whole(error)} lines /> {lacking}</div>
      {again && <button type="button" class="small" onClick={again}>{t("again")}</button>}
    </div>
  );
}

export const toast = signal<{ text: string; error?: unknown } | null>(null);
let toastTimer = 0;
export function say(text: string, error?: unknown) {
  toast.value = { text, error };
  clearTimeout(toastTimer);
  if (!error) toastTimer = window.setTimeout(() => { toast.value = null; }, 4000);
}

export function Toast() {
  const m = toast.value;
  return (
    <div class="toasts" role="status" aria-live="polite">
      {m && <div class="toast">{m.error ? <Fault error={m.error} /> : <T s={m.text} />}
        <button type="button" class="small" onClick={() => { toast.value = null; }}>{t("close")}</button></div>}
    </div>
  );
}

type ActProps = {
  label: string; does: () => Promise<unknown>; need?: Right; done?: string; ask?: ComponentChildren; after?: () => void; kind?: "main" | "bad"; off?: boolean;
};

// Act is a button that makes a call. One that asks first says what it will do, in a dialogue.
export function Act({ label, does, need = "operate", done, ask, after, kind, off }: ActProps) {
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState(false);
  if (!may(need)) return null;
  const run = async () => {
    setAsked(false);
    setBusy(true);
    try {
      const text = await does();
      say(typeof text === "string" ? text : done ?? t("doneThat", { what: label }));
      after?.();
    } catch (err) { say("", err); } finally { setBusy(false); }
  };
  return (
    <>
      <button type="button" class={kind} disabled={busy || off} aria-busy={busy} onClick={() => (ask ? setAsked(true) : void run())}>{label}</button>
      {asked && <Dialog title={label} close={() => setAsked(false)}>
        <div class="asks">{ask}</div>
        <div class="row end">
          <button type="button" onClick={() => setAsked(false)}>{t("cancelThis")}</button>
          <button type="button" class={kind ?? "main"} onClick={run}>{label}</button>
        </div>
      </Dialog>}
    </>
  );
}

export function Dialog({ title, close, children, wide }: { title: string; close?: () => void; children: ComponentChildren; wide?: boolean }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = box.current!;
    if (!d.open) d.showModal();
    return () => d.close();
  }, []);
  return (
    <dialog ref={box} class={wide ? "wide" : ""} aria-label={plain(title)}
      onCancel={(e) => { e.preventDefault(); close?.(); }} onClick={(e) => { if (e.target === box.current) close?.(); }}>
      <div class="inside"><h2><T s={title} /></h2>{children}</div>
    </dialog>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return <label class="field"><span>{label}</span>{children}{hint && <small class="quiet">{hint}</small>}</label>;
}

// Facts are names with values, in two columns.
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="facts">{of.filter(([, v]) => v !== null && v !== undefined && v !== "" && v !== false).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>;
}

export function Panel({ title, children, side, id }: { title: ComponentChildren; children: ComponentChildren; side?: ComponentChildren; id?: string }) {
  return <section class="panel" id={id}><header><h2>{title}</h2>{side && <div class="row">{side}</div>}</header>{children}</section>;
}

// Bar is a share of a whole as a bar with its numbers as text.
export function Bar({ part, of, tone, text }: { part: number; of: number; tone?: Tone; text?: string }) {
  const share = of > 0 ? Math.min(1, part / of) : 0;
  return (
    <span class="bar"><svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="6" rx="1" />
      <rect class={"fill " + (tone ?? "")} width={share * 100} height="6" /></svg><span>{text ?? number(part) + " / " + number(of)}</span></span>
  );
}

// Spark is a small curve; what it shows stands beside it as a number.
export function Spark({ values, label }: { values: number[]; label: string }) {
  const top = Math.max(1e-9, ...values), n = Math.max(1, values.length - 1);
  const points = values.map((v, i) => ((i / n) * 78 + 1).toFixed(1) + "," + (17 - (v / top) * 15).toFixed(1)).join(" ");
  return <svg class="spark" viewBox="0 0 80 18" width="80" height="18" role="img" aria-label={label}>{values.length > 1 && <polyline points={points} />}</svg>;
}

export function Title({ children, side, crumbs, sub }: { children: ComponentChildren; side?: ComponentChildren; crumbs?: [string, string][]; sub?: ComponentChildren }) {
  return (
    <div class="title">
      <div>
        {crumbs && <nav class="crumbs" aria-label={t("path")}>{crumbs.map(([text, href]) => <a href={href} key={href}>{text}</a>)}</nav>}
        <h1>{children}</h1>{sub && <p class="quiet">{sub}</p>}
      </div>
      {side && <div class="row actions">{side}</div>}
    </div>
  );
}
