// What a task carries: its context and result, and on demand what each of its stages was handed, with what differs.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, part } from "./api";
import { known, number, t } from "./i18n";
import { differences, folded, indented, rawField, rawItems } from "./json";
import { useLoad, type Page } from "./load";
import { Table } from "./table";
import { T } from "./text";
import { When } from "./time";
import { Copy, Fault, Mark, Panel } from "./ui";

type Handed = { seq: number; stage: string; outcome?: string; by?: string; time: string | null; text: string };

// shownChars is how much of a text is laid out or compared: more would keep the browser busy.
const shownChars = 200_000, shownLines = 2000;

async function readPage(path: string, cursor: string, signal: AbortSignal): Promise<Page<Handed>> {
  const text = await call("GET", path + (cursor ? "?cursor=" + part(cursor) : ""), { signal });
  const page = JSON.parse(text) as Page<Handed>;
  const raw = rawItems(rawField(text, "items") ?? "[]").map((item) => rawField(item, "context") ?? "null");
  return { items: page.items.map(({ seq, stage, outcome, by, time }, i) => ({ seq, stage, outcome, by, time, text: raw[i] })), next: page.next };
}

export function Json({ text }: { text: string }) {
  const pretty = useMemo(() => indented(text), [text]);
  const cut = pretty.length > shownChars;
  return <pre class="json" tabIndex={0}><T s={cut ? pretty.slice(0, shownChars) : pretty} lines />{cut && "\n… " + t("cutAt", { n: number(text.length) })}</pre>;
}

type Carrier = { id: string; stage: string; contextText: string; resultText: string };

// Carried reads what the stages were handed when somebody wants to see it, and again when the task has another stage or context.
export function Carried({ x }: { x: Carrier }) {
  const [each, setEach] = useState(false);
  const [pages, setPages] = useState(1);
  const [open, setOpen] = useState("context");
  const [against, setAgainst] = useState("");
  const handed = useLoad<Page<Handed>>(each ? "v1/tasks/" + part(x.id) + "/contexts" : null, 0, async (path, signal) => {
    let all: Handed[] = [], next = "";
    for (let n = 0; n < pages; n++) {
      const page = await readPage(path, next, signal);
      all = [...all, ...page.items];
      next = page.next;
      if (!next) break;
    }
    return { items: all, next };
  });
  useEffect(() => { if (handed.data) handed.again(); }, [x.stage, x.contextText, pages]);
  const stages = (each && handed.data?.items) || [];
  const name = (c: Handed) => `${c.stage || "–"} · ${c.seq < 0 ? t("submitted") : `#${c.seq} ${known("state", c.outcome ?? "")}`}`;
  const choices = [{ key: "context", name: t("context"), text: x.contextText }];
  if (x.resultText !== "null") choices.push({ key: "result", name: t("result"), text: x.resultText });
  const all = [...choices, ...stages.map((c) => ({ key: String(c.seq), name: name(c), text: c.text }))];
  const shown = all.find((c) => c.key === open) ?? all[0];
  const other = all.find((c) => c.key === against && c !== shown);
  return (
    <Panel title={t("carried")} side={<>
      <div class="choice" role="group" aria-label={t("carried")}>{choices.map((c) => <button type="button" key={c.key} aria-pressed={c === shown} onClick={() => setOpen(c.key)}>{c.name}</button>)}</div>
      <button type="button" aria-expanded={each} onClick={() => setEach(!each)}>{t("eachStage")}</button>
      {all.length > 1 && <select aria-label={t("compareWith")} value={other ? against : ""} onChange={(e) => setAgainst(e.currentTarget.value)}>
        <option value="">{t("compareWith")}</option>{all.filter((c) => c !== shown).map((c) => <option key={c.key} value={c.key}>{c.name}</option>)}
      </select>}
      <Copy text={shown.text} />
    </>}>
      <Fault error={each && handed.error} again={handed.again} />
      {each && handed.data && <Table caption={t("eachStage")} rows={stages} id={(c) => String(c.seq)} busy={handed.busy} more={handed.data.next ? () => setPages(pages + 1) : null} columns={[
        { key: "stage", head: t("stage"), cell: (c) => (c.stage ? <T s={c.stage} /> : <span class="quiet">–</span>) },
        { key: "outcome", head: t("handedBy"), cell: (c) => <>{c.seq < 0 ? t("submitted") : <Mark state={c.outcome ?? ""} />}{c.by && <> <T s={c.by} /></>}</> },
        { key: "time", head: t("time"), cell: (c) => <When at={c.time} /> },
        { key: "context", head: t("context"), grow: true, cell: (c) => <span class="mono clip3"><T s={c.text.slice(0, 200)} /></span> },
        { key: "show", head: "", cell: (c) => <button type="button" class="small" aria-pressed={shown.key === String(c.seq)} aria-label={t("showIt", { s: name(c) })} onClick={() => setOpen(String(c.seq))}>{t("show")}</button> },
      ]} />}
      {other ? <Difference a={other} b={shown} /> : shown.text === "null" ? <p class="pad quiet">{t("noContext")}</p> : <Json text={shown.text} />}
    </Panel>
  );
}

type Choice = { name: string; text: string };

// Difference leads from a to b.
function Difference({ a, b }: { a: Choice; b: Choice }) {
  const lines = useMemo(() => folded(differences(laidOut(a.text), laidOut(b.text))), [a.text, b.text]);
  const words: Record<string, string> = { "-": t("taken"), "+": t("added") };
  const long = Math.max(a.text.length, b.text.length) > shownChars;
  return <>
    <p class="pad quiet"><T s={`${a.name} → ${b.name}`} />{long && <> · {t("comparedTo", { n: number(shownChars) })}</>}{lines.every((l) => l.kind === " " || l.kind === "…") && <> · {t("alike")}</>}</p>
    <pre class="json diff" tabIndex={0}>{lines.slice(0, shownLines).map((l, i) => l.kind === "…" ? <span key={i} class="quiet">… {t("linesAlike", { n: number(l.n) })}{"\n"}</span>
      : <span key={i} class={l.kind === "+" ? "plus" : l.kind === "-" ? "minus" : ""}>{l.kind !== " " && <span class="sr">{words[l.kind]}</span>}{l.kind} <T s={l.text.slice(0, 2000)} />{"\n"}</span>)}
      {lines.length > shownLines && "… " + t("leftOut", { n: number(lines.length - shownLines) })}</pre>
  </>;
}

const laidOut = (text: string) => indented(text.slice(0, shownChars)).slice(0, 2 * shownChars);
