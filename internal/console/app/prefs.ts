// What the reader chose: language, theme, and whether the screen follows what happens. It stays in this browser.
import { signal, effect } from "@preact/signals";

function kept(name: string): string | null {
  try { return localStorage.getItem("rota-" + name); } catch { return null; }
}

function keep(name: string, value: string | null) {
  try {
    if (value === null) localStorage.removeItem("rota-" + name);
    else localStorage.setItem("rota-" + name, value);
  } catch { /* a browser that keeps nothing still shows everything */ }
}

export type Theme = "auto" | "light" | "dark";
export type Lang = "en" | "zh";

export const theme = signal<Theme>((kept("theme") as Theme) ?? "auto");
export const lang = signal<Lang>((kept("lang") as Lang) ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
export const paused = signal(false);

effect(() => {
  const t = theme.value;
  keep("theme", t === "auto" ? null : t);
  if (t === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
});
effect(() => {
  keep("lang", lang.value);
  document.documentElement.lang = lang.value === "zh" ? "zh-CN" : "en";
});

export function tokenKept(): { token: string | null; always: boolean } {
  const always = kept("token");
  if (always !== null) return { token: always, always: true };
  try { return { token: sessionStorage.getItem("rota-token"), always: false }; } catch { return { token: null, always: false }; }
}

export function keepToken(token: string | null, always: boolean) {
  keep("token", always ? token : null);
  try {
    if (token === null || always) sessionStorage.removeItem("rota-token");
    else sessionStorage.setItem("rota-token", token);
  } catch { /* it is asked for again after a reload */ }
}
