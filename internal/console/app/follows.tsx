// A drawing of what follows what: each schedule right of the ones that it follows. The list above says the same.
import { t } from "./i18n";
import { to } from "./route";
import { plain } from "./text";
import { afterOf, type Schedule } from "./schedules";

const most = 150, wide = 190, high = 34;

export function Follows({ all }: { all: Schedule[] }) {
  const by = new Map(all.map((s) => [s.name, s]));
  const followed = new Set(all.flatMap(afterOf));
  const shown = all.filter((s) => afterOf(s).length > 0 || followed.has(s.name)).slice(0, most);
  const depth = new Map<string, number>();
  const deep = (name: string, way: Set<string>): number => {
    if (depth.has(name)) return depth.get(name)!;
    if (way.has(name)) return 0;
    way.add(name);
    const s = by.get(name);
    const d = s ? Math.max(0, ...afterOf(s).map((a) => deep(a, way) + 1)) : 0;
    depth.set(name, d);
    return d;
  };
  const rows: number[] = [];
  const place = new Map<string, [number, number]>();
  for (const s of shown) {
    const d = deep(s.name, new Set());
    rows[d] = (rows[d] ?? 0) + 1;
    place.set(s.name, [8 + d * (wide + 60), 8 + (rows[d] - 1) * (high + 10)]);
  }
  const width = 8 + rows.length * (wide + 60), height = 16 + Math.max(...rows) * (high + 10);
  const cut = (name: string) => { const p = plain(name); return [...p].length > 24 ? [...p].slice(0, 23).join("") + "…" : p; };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t("whatFollows")}>
      <svg class="follows" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t("whatFollows")}>
        {shown.flatMap((s) => afterOf(s).flatMap((a) => {
          const from = place.get(a), at = place.get(s.name);
          if (!from || !at) return [];
          const x1 = from[0] + wide, y1 = from[1] + high / 2, x2 = at[0], y2 = at[1] + high / 2;
          return [<path key={a + ">" + s.name} class="edge" d={`M${x1} ${y1}C${x1 + 30} ${y1} ${x2 - 30} ${y2} ${x2 - 5} ${y2}M${x2 - 6} ${y2 - 3}l5 3-5 3`} />];
        }))}
        {shown.map((s) => {
          const [x, y] = place.get(s.name)!;
          return <a key={s.name} href={to(["schedules", s.name])}><rect class={"node" + (s.paused ? " paused" : "")} x={x} y={y} width={wide} height={high} rx="4" /><text x={x + 10} y={y + 21}>{cut(s.name)}</text><title>{plain(s.name)}</title></a>;
        })}
      </svg>
    </div>
  );
}
