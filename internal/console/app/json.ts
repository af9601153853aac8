// Contexts and results are texts that rota keeps byte for byte: they are cut out of an answer and
// indented without being parsed, so that 1e400, a number of forty digits, or a name that stands twice is
// shown as it is.

function stringEnd(text: string, at: number): number {
  for (at++; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  return at;
}

function space(text: string, at: number): number {
  while (at < text.length && " \t\r\n".includes(text[at])) at++;
  return at;
}

function valueEnd(text: string, at: number): number {
  if (text[at] === '"') return stringEnd(text, at);
  let depth = 0;
  while (at < text.length) {
    const c = text[at];
    if (c === '"') { at = stringEnd(text, at); continue; }
    if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") {
      if (depth === 0) return at;
      depth--;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (c === "," || " \t\r\n".includes(c))) return at;
    at++;
  }
  return at;
}

// rawField is the text of one field of the object that the text is, or undefined.
export function rawField(text: string, name: string): string | undefined {
  let at = space(text, 0);
  if (text[at] !== "{") return undefined;
  at = space(text, at + 1);
  while (at < text.length && text[at] === '"') {
    const keyEnd = stringEnd(text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    at = space(text, keyEnd);
    at = space(text, at + 1); // the colon
    const end = valueEnd(text, at);
    if (key === name) return text.slice(at, end);
    at = space(text, end);
    if (text[at] !== ",") return undefined;
    at = space(text, at + 1);
  }
  return undefined;
}

// rawItems are the texts of the items of the array that the text is.
export function rawItems(text: string): string[] {
  const items: string[] = [];
  let at = space(text, space(text, 0) + 1);
  while (at < text.length && text[at] !== "]") {
    const end = valueEnd(text, at);
    items.push(text.slice(at, end));
    at = space(text, end);
    if (text[at] === ",") at = space(text, at + 1);
  }
  return items;
}

// indented lays a JSON text out in lines; scalars stay as they are, byte for byte.
export function indented(text: string): string {
  const out: string[] = [];
  let depth = 0, at = 0;
  const line = () => out.push("\n", "  ".repeat(Math.min(depth, 40)));
  while (at < text.length) {
    at = space(text, at);
    const c = text[at];
    if (c === undefined) break;
    if (c === "{" || c === "[") {
      const close = c === "{" ? "}" : "]";
      const next = space(text, at + 1);
      if (text[next] === close) { out.push(c, close); at = next + 1; continue; }
      out.push(c); depth++; line(); at++;
    } else if (c === "}" || c === "]") { depth--; line(); out.push(c); at++; }
    else if (c === ",") { out.push(c); line(); at++; }
    else if (c === ":") { out.push(": "); at++; }
    else {
      let end = at;
      if (c === '"') end = stringEnd(text, at);
      else while (end < text.length && !",:{}[] \t\r\n\"".includes(text[end])) end++;
      out.push(text.slice(at, end)); at = end;
    }
  }
  return out.join("");
}

export type DiffLine = { kind: " " | "-" | "+"; text: string };

// differences are the lines of two texts by their longest common subsequence; beyond so many lines
// only what is the same at both ends is matched.
export function differences(a: string, b: string): DiffLine[] {
  const x = a.split("\n"), y = b.split("\n");
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const p = x.slice(head, x.length - tail), q = y.slice(head, y.length - tail);
  const out: DiffLine[] = x.slice(0, head).map((text) => ({ kind: " ", text }));
  out.push(...(p.length * q.length <= 1_000_000 ? common(p, q) : replaced(p, q)));
  out.push(...x.slice(x.length - tail).map((text) => ({ kind: " ", text }) as DiffLine));
  return out;
}

// folded keeps what differs and three lines around it; in place of the others stands how many they are.
export function folded(lines: DiffLine[]): (DiffLine | { kind: "…"; text: string; n: number })[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((l, i) => { if (l.kind !== " ") near.fill(1, Math.max(0, i - 3), i + 4); });
  const out: ReturnType<typeof folded> = [];
  for (let i = 0; i < lines.length;) {
    let end = i;
    while (end < lines.length && !near[end]) end++;
    if (end - i > 1) { out.push({ kind: "…", text: "", n: end - i }); i = end; }
    else out.push(lines[i++]);
  }
  return out;
}

function replaced(p: string[], q: string[]): DiffLine[] {
  return [...p.map((text) => ({ kind: "-", text }) as DiffLine), ...q.map((text) => ({ kind: "+", text }) as DiffLine)];
}

function common(p: string[], q: string[]): DiffLine[] {
  const w = q.length + 1;
  const best = new Uint32Array((p.length + 1) * w);
  for (let i = p.length - 1; i >= 0; i--) {
    for (let j = q.length - 1; j >= 0; j--) {
      best[i * w + j] = p[i] === q[j] ? best[(i + 1) * w + j + 1] + 1 : Math.max(best[(i + 1) * w + j], best[i * w + j + 1]);
    }
  }
  const out: DiffLine[] = [];
  let i = 0, j = 0;
  while (i < p.length || j < q.length) {
    if (i < p.length && j < q.length && p[i] === q[j]) { out.push({ kind: " ", text: p[i] }); i++; j++; }
    else if (j >= q.length || (i < p.length && best[(i + 1) * w + j] >= best[i * w + j + 1])) out.push({ kind: "-", text: p[i++] });
    else out.push({ kind: "+", text: q[j++] });
  }
  return out;
}
