// What hangs below a task, drawn: each with its state and how long it ran, or waits.
import { useState } from "preact/hooks";
import { part } from "./api";
import { known, t } from "./i18n";
import { useLoad } from "./load";
import { to } from "./route";
import type { TaskItem } from "./tasks";
import { T } from "./text";
import { Age, When, duration } from "./time";
import { Fault, Mark, N, Panel } from "./ui";

type Prior = { id: string; ref?: string; state?: string };
type Node = TaskItem & { began: string | null; since: string | null; below: Node[]; left_out?: number; after?: Prior[] };

const few = 100, most = 1000;

// Tree reads at first what a screen holds. What is over seldom changes.
export function Tree({ id, over }: { id: string; over: boolean }) {
  const [limit, setLimit] = useState(few);
  const tree = useLoad<Node>("v1/tasks/" + part(id) + "/tree?limit=" + limit, over ? 30_000 : 3000);
  const cut = (n: Node): boolean => (n.left_out ?? 0) > 0 || n.below.some(cut);
  const x = tree.data;
  return (
    <Panel title={t("tree")} side={x && limit < most && cut(x) ? <button type="button" onClick={() => setLimit(most)}>{t("treeAll")}</button> : undefined}>
      <Fault error={tree.error} />
      {x && <div class="tree"><Below of={x} /></div>}
    </Panel>
  );
}

function Below({ of: x }: { of: Node }) {
  return (
    <ul>
      {x.below.map((n) => <li key={n.id}>{n.below.length > 0 || n.left_out ? <details open><summary><Branch of={n} /></summary><Below of={n} /></details> : <Branch of={n} />}</li>)}
      {(x.left_out ?? 0) > 0 && <li class="quiet">{t("leftOut", { n: String(x.left_out) })}</li>}
    </ul>
  );
}

function Branch({ of: n }: { of: Node }) {
  return (
    <span class="branch">
      <a class="mono" href={to(["tasks", n.id])}><T s={n.id} /></a><Mark state={n.state} /><span><T s={n.queue} />{n.stage && <> · <T s={n.stage} /></>}</span>
      <span class="quiet"><Took of={n} /></span>
      {n.after?.slice(0, 3).map((p) => <span key={p.id} class="quiet"><T s={t("treeAfter", { s: p.ref || p.id })} /> ({p.state ? known("state", p.state) : t("childrenOpen")})</span>)}
      {(n.after?.length ?? 0) > 3 && <span class="quiet">+<N n={n.after!.length - 3} /></span>}
      {n.error && <span class="mono clip3"><T s={n.error} /></span>}
    </span>
  );
}

// Took is how long a task ran, or has run or waited so far.
function Took({ of: n }: { of: Node }) {
  if (["done", "dead", "cancelled", "expired"].includes(n.state)) return n.began && n.since ? <>{duration(Date.parse(n.since) - Date.parse(n.began))}</> : <>–</>;
  if (n.state === "waiting") return <When at={n.due} />;
  const from = n.state === "running" ? n.began : n.since;
  return from ? <Age since={from} /> : <>–</>;
}
