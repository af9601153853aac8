import { lang } from "../prefs";
import { en } from "./en";
import { zh } from "./zh";

export type Key = keyof typeof en;
const tables: Record<"en" | "zh", Record<Key, string>> = { en, zh };

// t is the text of a key in the reader's language, its {fields} filled in.
export function t(key: Key, fields?: Record<string, string | number>): string {
  const text = tables[lang.value][key];
  return fields ? text.replace(/\{(\w+)\}/g, (_, f) => String(fields[f] ?? "")) : text;
}

// known is the text of a word of the API, as a state or an outcome; one that is new is shown as it is.
export function known(prefix: string, word: string): string {
  const text = (tables[lang.value] as Record<string, string>)[prefix + "." + word];
  return text ?? word;
}

export function number(n: number, digits?: number): string {
  return new Intl.NumberFormat(lang.value === "zh" ? "zh-CN" : "en-GB", digits === undefined ? {} : { maximumFractionDigits: digits }).format(n);
}
