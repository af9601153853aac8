// merged applies a JSON merge patch (RFC 7396) and leaves its target alone.
export function merged(target: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const out: Record<string, unknown> = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...(target as object) } : {};
  for (const [k, v] of Object.entries(patch)) {
    if (v === null) delete out[k];
    else Object.defineProperty(out, k, { value: merged(out[k], v), writable: true, enumerable: true, configurable: true });
  }
  return out;
}
