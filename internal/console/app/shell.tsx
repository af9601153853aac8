// What stands around each screen: the rail, the switches, the question for a token, the keys.
import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { access, asking, forgetToken, giveToken, hasToken } from "./api";
import { t, type Key } from "./i18n";
import { link, overview } from "./live";
import { lang, paused, theme, type Theme } from "./prefs";
import { go, route, to } from "./route";
import { Dialog, Field, Icon, Toast } from "./ui";
import { T } from "./text";

type Entry = { path: string; key: Key; letter: string; icon: string };

export const entries: Entry[] = [
  { path: "", key: "overview", letter: "o", icon: "M1.5 1.5h4v5h-4zM1.5 8.5h4v2h-4zM7 1.5h3.5v2H7zM7 5.5h3.5v5H7z" },
  { path: "tasks", key: "tasks", letter: "t", icon: "M1.5 3h9M1.5 6h9M1.5 9h6" },
  { path: "queues", key: "queues", letter: "q", icon: "M1.5 2h9v2.2h-9zM1.5 5h9v2.2h-9zM1.5 8h9v2.2h-9z" },
  { path: "workers", key: "workers", letter: "w", icon: "M2 10.5V7h8v3.5zM6 1.5a2 2 0 1 1 0 4a2 2 0 1 1 0-4z" },
  { path: "jobs", key: "jobs", letter: "j", icon: "M1.5 10.5V5h2.5v5.5zM5 10.5V1.5h2.5v9zM8.5 10.5V7h2v3.5z" },
  { path: "forecast", key: "forecast", letter: "f", icon: "M1.5 9.5 4.5 6l2 2 4-5.5M8 2.5h2.5V5" },
  { path: "nodes", key: "nodes", letter: "n", icon: "M1.5 1.5h9v3.5h-9zM1.5 7h9v3.5h-9zM3.5 3.2h.1M3.5 8.8h.1" },
  { path: "schedules", key: "schedules", letter: "s", icon: "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9zM6 3.5V6l2 1.3" },
  { path: "events", key: "events", letter: "e", icon: "M2 1.5v9M2 3h3M2 6h7M2 9h5" },
  { path: "notifiers", key: "notifiers", letter: "m", icon: "M1.5 3h9v6.5h-9zM1.5 3 6 6.5 10.5 3" },
  { path: "hooks", key: "hooks", letter: "h", icon: "M8.5 1.5v5.5a2.5 2.5 0 0 1-5 0V5.5M2 7l1.5-1.5L5 7" },
  { path: "about", key: "about", letter: "a", icon: "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9zM6 5.5V8.5M6 3.5h.1" },
];

export const keysShown = signal(false);

function Rail() {
  const here = route.value.path[0] ?? "";
  return (
    <nav class="rail" aria-label={t("screens")}>
      <a class="brand" href="#/"><svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true"><path d="M10 2a8 8 0 0 1 6.9 4M17.9 9A8 8 0 0 1 13 17.4M9.5 18A8 8 0 0 1 2 10.5M2.6 7A8 8 0 0 1 7 2.6" /><circle cx="10" cy="10" r="2.5" /></svg>Rota</a>
      <ul>{entries.map((e) => (
        <li key={e.path}><a href={"#/" + e.path} aria-current={here === e.path ? "page" : undefined}><Icon d={e.icon} /><span>{t(e.key)}</span></a></li>
      ))}</ul>
    </nav>
  );
}

const themes: Theme[] = ["auto", "light", "dark"];

function Bar() {
  const state = paused.value ? "paused" : link.value;
  const words: Record<string, Key> = { paused: "livePaused", connecting: "liveConnecting", live: "liveOn", broken: "liveBroken", missing: "liveMissing" };
  return (
    <div class="bar-top">
      <span class="node-name">{overview.value && <T s={overview.value.node} />}</span>
      <div class="row">
        <button type="button" class={"live " + state} aria-pressed={paused.value} title={t("pauseHint")} onClick={() => { paused.value = !paused.value; }}>
          <span class="dot" aria-hidden="true" /><span class="live-word">{t(words[state])}</span>
        </button>
        <button type="button" title={t("theme")} onClick={() => { theme.value = themes[(themes.indexOf(theme.value) + 1) % 3]; }}>{t(("theme." + theme.value) as Key)}</button>
        <button type="button" lang={lang.value === "en" ? "zh-CN" : "en"} onClick={() => { lang.value = lang.value === "en" ? "zh" : "en"; }}>{lang.value === "en" ? "中文" : "English"}</button>
        <button type="button" class="only-wide" aria-label={t("keys")} title={t("keys")} onClick={() => { keysShown.value = true; }}>?</button>
        {hasToken() && <button type="button" title={access.value?.role} onClick={forgetToken}>{t("signOut")}</button>}
      </div>
    </div>
  );
}

function TokenDialog() {
  const why = asking.value;
  const [token, setToken] = useState("");
  const [stay, setStay] = useState(false);
  if (why === null) return null;
  return (
    <Dialog title={t("tokenTitle")}>
      <form onSubmit={(e) => { e.preventDefault(); if (token.trim()) { giveToken(token.trim(), stay); setToken(""); } }}>
        <p class={why === "wrong" ? "bad-text" : ""}>{why === "wrong" ? t("tokenWrong") : t("tokenWanted")}</p>
        <Field label={t("token")}><input type="password" autocomplete="off" required value={token} onInput={(e) => setToken(e.currentTarget.value)} /></Field>
        <label class="check"><input type="checkbox" checked={stay} onChange={(e) => setStay(e.currentTarget.checked)} /> {t("tokenStay")}</label>
        <div class="row end"><button type="submit" class="main">{t("continue")}</button></div>
      </form>
    </Dialog>
  );
}

function KeysDialog() {
  if (!keysShown.value) return null;
  const close = () => { keysShown.value = false; };
  return (
    <Dialog title={t("keys")} close={close}>
      <dl class="keys">
        <div><dt><kbd>/</kbd></dt><dd>{t("keyFilter")}</dd></div>
        {entries.map((e) => <div key={e.path}><dt><kbd>g</kbd> <kbd>{e.letter}</kbd></dt><dd>{t(e.key)}</dd></div>)}
        <div><dt><kbd>p</kbd></dt><dd>{t("pauseHint")}</dd></div>
        <div><dt><kbd>?</kbd></dt><dd>{t("keys")}</dd></div>
        <div><dt><kbd>Esc</kbd></dt><dd>{t("keyEscape")}</dd></div>
      </dl>
      <div class="row end"><button type="button" onClick={close}>{t("close")}</button></div>
    </Dialog>
  );
}

let went = 0;

function pressed(e: KeyboardEvent) {
  const at = e.target as HTMLElement;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || at.isContentEditable;
  if (e.key === "Escape" && typing && !at.closest("dialog")) { at.blur(); return; }
  if (typing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (went && Date.now() - went < 1500) {
    went = 0;
    const entry = entries.find((x) => x.letter === e.key);
    if (entry) { e.preventDefault(); go([entry.path].filter(Boolean)); }
    return;
  }
  went = 0;
  if (e.key === "g") went = Date.now();
  else if (e.key === "?") keysShown.value = true;
  else if (e.key === "p") paused.value = !paused.value;
  else if (e.key === "/") {
    const box = document.getElementById("filter") as HTMLInputElement | null;
    if (box) { e.preventDefault(); box.focus(); box.select(); }
  }
}

export function Shell({ children }: { children: ComponentChildren }) {
  useEffect(() => {
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const screen = route.value.path.join("/");
  useEffect(() => {
    const entry = entries.find((e) => e.path === (route.value.path[0] ?? ""));
    document.title = (entry ? t(entry.key) + " · " : "") + "Rota";
    document.getElementById("main")?.scrollTo(0, 0);
  }, [screen, lang.value]);
  return (
    <>
      <a class="skip" href={to(route.value.path)} onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>{t("skip")}</a>
      <Rail />
      <div class="page"><Bar /><main id="main" tabIndex={-1}>{children}</main></div>
      <Toast /><TokenDialog /><KeysDialog />
    </>
  );
}
