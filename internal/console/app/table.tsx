// One table for all lists: aligned numbers, sorting by a heading, and rows that become cards on a narrow screen.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { route, setQuery } from "./route";
import { t } from "./i18n";
import { Icon } from "./ui";

export type Column<A> = {
  key: string; head: string; cell: (row: A) => ComponentChildren; num?: boolean; by?: (row: A) => number | string; grow?: boolean;
};

type Props<A> = {
  caption: string; columns: Column<A>[]; rows: A[]; id: (row: A) => string; more?: (() => void) | null; busy?: boolean;
  pick?: { has: (row: A) => boolean; set: (row: A, on: boolean) => void }; sorts?: boolean; tone?: (row: A) => string;
};

export function Table<A>({ caption, columns, rows, id, more, busy, sorts, tone }: Props<A>) {
  const [order, setOrder] = useState<{ key: string; down: boolean } | null>(null);
  const by = order && columns.find((c) => c.key === order.key)?.by;
  const sorted = by ? [...rows].sort((a, b) => compare(by(a), by(b)) * (order!.down ? -1 : 1)) : rows;
  const turn = (c: Column<A>) => setOrder((o) => (o?.key !== c.key ? { key: c.key, down: !!c.num } : o.down === !!c.num ? { key: c.key, down: !c.num } : null));
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table class="list">
        <caption class="sr">{caption}</caption>
        <thead><tr>{columns.map((c) => (
          <th key={c.key} scope="col" class={(c.num ? "num" : "") + (c.grow ? " grow" : "")} aria-sort={order?.key === c.key ? (order.down ? "descending" : "ascending") : undefined}>
            {sorts && c.by ? <button type="button" class="sort" onClick={() => turn(c)}>{c.head}{order?.key === c.key && <Icon d={order.down ? "M3 5l3 3 3-3" : "M3 7l3-3 3 3"} />}</button> : c.head}
          </th>
        ))}</tr></thead>
        <tbody>{sorted.map((r) => <tr key={id(r)} class={tone?.(r)}>{columns.map((c) => <td key={c.key} class={(c.num ? "num" : "") + (c.grow ? " grow" : "")} data-head={c.head}>{c.cell(r)}</td>)}</tr>)}</tbody>
      </table>
      {more && <div class="more"><button type="button" disabled={busy} onClick={more}>{busy ? t("reading") : t("more")}</button></div>}
    </div>
  );
}

function compare(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}

// Filter is the box that / leads to; what stands in it stands in the URL.
export function Filter({ label, name = "q" }: { label: string; name?: string }) {
  return (
    <div class="filter">
      <input id="filter" type="search" aria-label={label} placeholder={label} value={route.value.query.get(name) ?? ""} autocomplete="off" spellcheck={false}
        onInput={(e) => setQuery({ [name]: e.currentTarget.value })} />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

// matches tells whether a text has all words of the filter in it.
export function matches(...texts: (string | undefined)[]): boolean {
  const words = (route.value.query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const all = texts.join(" ").toLowerCase();
  return words.every((w) => all.includes(w));
}
