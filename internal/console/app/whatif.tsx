// What would become of a group if workers left, drained or came: the node reckons, nothing changes.
import { useState } from "preact/hooks";
import { send } from "./api";
import { number, t } from "./i18n";
import type { Budget } from "./groups";
import { BudgetText } from "./group";
import { Table } from "./table";
import { T } from "./text";
import { Fault, Field, N, Panel } from "./ui";
import type { Worker } from "./workers";

type Planned = { group: string; job: string; replica: number; worker: string; reason?: string };
type Plan = { start: Planned[]; stop: Planned[]; pending: Planned[]; moves: number; rounds: number; loads_before: Record<string, number>; loads_after: Record<string, number>; budget: Budget };
type Fate = "stay" | "remove" | "drain";

export function WhatIf({ path, workers }: { path: string; workers: Worker[] }) {
  const [fates, setFates] = useState<Record<string, Fate>>({});
  const [count, setCount] = useState("0");
  const [capacity, setCapacity] = useState("8");
  const [zone, setZone] = useState("");
  const [replicas, setReplicas] = useState("");
  const [plan, setPlan] = useState<Plan | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const chosen = (f: Fate) => workers.filter((w) => fates[w.name] === f).map((w) => w.name);
  const reckon = async () => {
    setBusy(true);
    setError(null);
    try {
      setPlan(await send<Plan>("POST", path + "/plan", {
        remove_workers: chosen("remove"), drain_workers: chosen("drain"),
        ...(Number(count) > 0 ? { add_workers: [{ capacity: Number(capacity), count: Number(count), ...(zone ? { zone } : {}) }] } : {}),
        ...(replicas ? { replicas: Number(replicas) } : {}),
      }, "read"));
    } catch (err) { setPlan(null); setError(err); } finally { setBusy(false); }
  };
  return (
    <Panel title={t("whatIf")} id="whatif" side={<span class="quiet">{t("changesNothing")}</span>}>
      <form class="pad" onSubmit={(e) => { e.preventDefault(); void reckon(); }}>
        <div class="fates">{workers.map((w) => (
          <label key={w.name}><span><T s={w.name} /> <span class="quiet">{number(w.capacity)}</span></span>
            <select value={fates[w.name] ?? "stay"} onChange={(e) => setFates({ ...fates, [w.name]: e.currentTarget.value as Fate })}>
              <option value="stay">{t("fateStay")}</option><option value="remove">{t("fateRemove")}</option><option value="drain">{t("fateDrain")}</option>
            </select></label>
        ))}</div>
        <div class="grid">
          <Field label={t("addWorkers")}><input type="number" min="0" max="10000" value={count} onInput={(e) => setCount(e.currentTarget.value)} /></Field>
          <Field label={t("eachCapacity")}><input type="number" min="0" step="any" value={capacity} onInput={(e) => setCapacity(e.currentTarget.value)} /></Field>
          <Field label={t("zone")}><input value={zone} onInput={(e) => setZone(e.currentTarget.value)} /></Field>
          <Field label={t("replicasEach")}><input type="number" min="0" value={replicas} onInput={(e) => setReplicas(e.currentTarget.value)} /></Field>
        </div>
        <div class="row end"><button type="submit" class="main" disabled={busy} aria-busy={busy}>{t("reckon")}</button></div>
      </form>
      <Fault error={error} />
      {plan && <Outcome plan={plan} />}
    </Panel>
  );
}

function Outcome({ plan }: { plan: Plan }) {
  const names = [...new Set([...Object.keys(plan.loads_before), ...Object.keys(plan.loads_after)])].sort();
  const top = Math.max(1, ...names.map((n) => Math.max(plan.loads_before[n] ?? 0, plan.loads_after[n] ?? 0)));
  const rows = [...plan.pending.map((p) => ({ ...p, what: t("pending") })), ...plan.start.map((p) => ({ ...p, what: t("wouldStart") })), ...plan.stop.map((p) => ({ ...p, what: t("wouldStop") }))];
  return (
    <div role="status">
      <p class="pad big">{t("planWords", { s: number(plan.start.length), e: number(plan.stop.length), m: number(plan.moves), p: number(plan.pending.length), r: number(plan.rounds) })}</p>
      <Table caption={t("loads")} rows={names} id={(n) => n} columns={[
        { key: "w", head: t("worker"), cell: (n) => <T s={n} /> },
        { key: "b", head: t("before"), num: true, cell: (n) => (n in plan.loads_before ? <N n={plan.loads_before[n]} digits={3} /> : "–") },
        { key: "a", head: t("afterwards"), num: true, cell: (n) => (n in plan.loads_after ? <N n={plan.loads_after[n]} digits={3} /> : "–") },
        { key: "bar", head: t("loads"), grow: true, cell: (n) => <svg class="twobars" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true"><rect class="was" width={((plan.loads_before[n] ?? 0) / top) * 100} height="6" /><rect class="fill" y="8" width={((plan.loads_after[n] ?? 0) / top) * 100} height="6" /></svg> },
      ]} />
      <BudgetText b={plan.budget} />
      {rows.length > 0 && <Table caption={t("whatIf")} rows={rows.slice(0, 500)} id={(p) => p.what + p.group + p.job + p.replica + p.worker} columns={[
        { key: "what", head: t("what"), cell: (p) => p.what }, { key: "job", head: t("job"), cell: (p) => <T s={p.job + " / " + p.replica} /> },
        { key: "worker", head: t("worker"), cell: (p) => (p.worker ? <T s={p.worker} /> : "–") }, { key: "why", head: t("why"), grow: true, cell: (p) => (p.reason ? <T s={p.reason} /> : "") },
      ]} />}
      {rows.length > 500 && <p class="quiet pad">{t("leftOut", { n: number(rows.length - 500) })}</p>}
    </div>
  );
}
