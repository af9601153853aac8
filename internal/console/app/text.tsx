// What users wrote is shown as text nodes only, and what would be invisible or turn the line around is
// shown as an escape.

// hidden are control, format and separator characters and lone surrogates, but for the two joiners that
// scripts and emoji need.
const hidden = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]|(?![\u200c\u200d])\p{Cf}/u;
const splitter = /((?:[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]|(?![\u200c\u200d])\p{Cf})+)/u;

const short: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function escaped(s: string): string {
  let out = "";
  for (const c of s) {
    const hex = c.codePointAt(0)!.toString(16);
    out += short[c] ?? (hex.length <= 4 ? "\\u" + hex.padStart(4, "0") : "\\u{" + hex + "}");
  }
  return out;
}

// plain is the text for attributes, where nothing can be marked.
export function plain(s: string): string {
  return hidden.test(s) ? s.split(splitter).map((p, i) => (i % 2 ? escaped(p) : p)).join("") : s;
}

// T shows a text of users, isolated from the direction of its surroundings.
export function T({ s, lines }: { s: string; lines?: boolean }) {
  if (!hidden.test(s)) return <bdi class="u">{s}</bdi>;
  if (lines) {
    const parts = s.split("\n");
    return <bdi class="u">{parts.map((p, i) => [i ? "\n" : "", <Marked s={p} />])}</bdi>;
  }
  return <bdi class="u"><Marked s={s} /></bdi>;
}

function Marked({ s }: { s: string }) {
  return <>{s.split(splitter).map((p, i) => (i % 2 ? <span class="esc">{escaped(p)}</span> : p))}</>;
}
