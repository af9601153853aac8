// Errors that differ only in numbers and ids are alike.
export function alike(error: string): string {
  return error
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "…")
    .replace(/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?/g, "…")
    .replace(/\b0x[0-9a-f]+\b/gi, "…")
    .replace(/\b(?=[a-z]*\d)[0-9a-z]{10,}\b/gi, "…")
    .replace(/\d+(?:\.\d+)*/g, "…")
    .replace(/…(?:[.:,-]…)+/g, "…");
}

const longest = 250;

// pattern is a regular expression that the errors which are alike match, cut to what a filter takes.
export function pattern(likeness: string): string {
  const text = "^" + likeness.split("…").map((p) => p.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join(".*");
  if (new TextEncoder().encode(text).length <= longest) return text;
  let cut = text.slice(0, longest);
  while (new TextEncoder().encode(cut).length > longest) cut = cut.slice(0, -1);
  return cut.replace(/\\+$/, (end) => (end.length % 2 ? end.slice(1) : end));
}
