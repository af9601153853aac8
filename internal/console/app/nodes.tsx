import { useState } from "preact/hooks";
import { may, part, send } from "./api";
import { number, t } from "./i18n";
import { useLoad, usePages, type Page } from "./load";
import { Filter, Table, matches } from "./table";
import { T } from "./text";
import { When } from "./time";
import { Act, Bar, Dialog, Empty, Fault, Facts, Field, Mark, N, Panel, Title, say } from "./ui";
import { Explain } from "./task";
import { route, setQuery, to } from "./route";

type NodeItem = {
  name: string; address: string; state: string; score: number; cpu: number; memory: number; executors: number; running: number; tasks: number;
  claims: { owned: number; target: number; cap: number; alarm: number }; strikes: { by: string; misses: number }[]; joined: string | null; seen: string | null; down: string | null;
};
type Cluster = {
  K: number; S: number; unowned: number; tolerance: number; rebalance: string; budget: { nodes: number; workers?: number | null; weakest: string[] };
  store: string; version: string; chores: { name: string; node: string }[];
};
type Claim = { key: string; owner: string; since: string | null; until: string | null; assigned?: { node: string; by: string; until: string } };

export function NodesScreen() {
  const list = useLoad<Page<NodeItem>>("v1/nodes?limit=1000", 2000);
  const cluster = useLoad<Cluster>("v1/cluster", 3000);
  const all = list.data?.items ?? [], rows = all.filter((n) => matches(n.name, n.address, n.state));
  const c = cluster.data;
  const again = () => { list.again(); cluster.again(); };
  return (
    <>
      <Title>{t("nodes")}</Title>
      <Filter label={t("filterNodes")} />
      <Fault error={list.error} again={list.again} />
      {list.data && (rows.length === 0 ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("nodes")} rows={rows} id={(n) => n.name} sorts columns={[
        { key: "name", head: t("node"), grow: true, by: (n) => n.name, cell: (n) => <><T s={n.name} />{n.address && <div class="quiet"><T s={n.address} /></div>}</> },
        { key: "state", head: t("state"), by: (n) => n.state, cell: (n) => <Mark state={n.state} /> },
        { key: "score", head: t("score"), num: true, by: (n) => n.score, cell: (n) => number(n.score, 0) },
        { key: "parts", head: t("scoreParts"), cell: (n) => <span class="parts"><Bar part={n.cpu} of={1} text={"CPU " + number(n.cpu * 100, 0) + " %"} /><Bar part={n.memory} of={1} text={t("memory") + " " + number(n.memory * 100, 0) + " %"} />{n.executors > 0 && <Bar part={n.running} of={n.executors} text={t("ownTasks") + " " + number(n.running) + " / " + number(n.executors)} />}</span> },
        { key: "tasks", head: t("tasksHeld"), num: true, by: (n) => n.tasks, cell: (n) => <N n={n.tasks} /> },
        { key: "claims", head: t("claims"), by: (n) => n.claims.owned, cell: (n) => <a href={to(["nodes"], { owner: n.name })}><Bar part={n.claims.owned} of={Math.max(n.claims.cap, n.claims.owned)} tone={n.claims.alarm && n.claims.owned >= n.claims.alarm ? "bad" : undefined} text={t("claimsOf", { n: number(n.claims.owned), t: number(n.claims.target), c: number(n.claims.cap) }) + (n.claims.alarm ? " · " + t("alarm") + " " + number(n.claims.alarm) : "")} /></a> },
        { key: "strikes", head: t("whoSees"), cell: (n) => (n.strikes.length ? <span class="bad-text">{t("notReachedBy")} <T s={n.strikes.map((s) => s.by + " (" + s.misses + ")").join(", ")} /></span> : all.length > 1 && n.state !== "left" ? <span class="quiet">{t("allReach")}</span> : "") },
        { key: "seen", head: t("lastSign"), by: (n) => n.seen ?? "", cell: (n) => <When at={n.down ?? n.seen} /> },
        { key: "act", head: t("actions"), cell: (n) => (["left", "offline"].includes(n.state) ? "" : <NodeActs n={n} others={all.filter((o) => o.state === "working" && o !== n).length} again={again} />) },
      ]} />)}
      <Fault error={cluster.error} />
      {c && <Panel title={t("cluster")} side={<Act label={c.rebalance === "auto" ? t("rebalanceManual") : t("rebalanceAuto")} does={() => send("PUT", "v1/cluster", { rebalance: c.rebalance === "auto" ? "manual" : "auto" })} after={cluster.again} ask={t("rebalanceChange")} />}>
          <Facts of={[
            [t("keysCount"), <N n={c.K} to="#/nodes?owner=" />], [t("unowned"), <N n={c.unowned} tone="bad" />], [t("workingNodes"), <N n={c.S} />], [t("tolerance"), <N n={c.tolerance} />],
            [t("budgetNodes"), <N n={c.budget.nodes} />], [t("budgetWorkers"), typeof c.budget.workers === "number" ? <N n={c.budget.workers} /> : null], [t("weakest"), c.budget.weakest.length ? <T s={c.budget.weakest.join(", ")} /> : null],
            [t("rebalancing"), t(c.rebalance === "auto" ? "auto" : "manual")], [t("store"), c.store], [t("version"), <T s={c.version} />],
            [t("chores"), c.chores.map((x) => <div key={x.name}>{x.name}: {x.node ? <T s={x.node} /> : t("noneNow")}</div>)],
          ]} />
        </Panel>}
      <Claims nodes={all.filter((n) => n.state === "working").map((n) => n.name)} />
    </>
  );
}

// NodeActs says what a drain would cost before it is done.
function NodeActs({ n, others, again }: { n: NodeItem; others: number; again: () => void }) {
  const path = "v1/nodes/" + part(n.name);
  if (n.state === "draining" || n.state === "drained") return <Act label={t("undrain")} does={() => send("POST", path + "/undrain")} after={again} />;
  return <Act label={t("drain")} does={() => send("POST", path + "/drain")} after={again} ask={<>
    <p>{t("drainNode", { k: number(n.claims.owned), n: number(n.tasks), o: number(others) })}</p>{others === 0 && <p class="warn-text">{t("drainLast")}</p>}
  </>} />;
}

function Claims({ nodes }: { nodes: string[] }) {
  const [given, setGiven] = useState<Claim | null>(null);
  const owner = route.value.query.get("owner") ?? "", explain = route.value.query.get("claim");
  const list = usePages<Claim>("v1/claims?limit=100" + (owner ? "&owner=" + part(owner) : ""), 5000);
  return (
    <Panel title={<>{t("claims")}{owner && <> · <T s={owner} /> <a href="#/nodes">{t("all")}</a></>}</>} side={<Act label={t("rescan")} does={() => send("POST", "v1/claims/rescan")} after={list.again} />}>
      <Fault error={list.error} />
      {given && <Give claim={given} nodes={nodes} close={() => setGiven(null)} after={list.again} />}
      {explain && <Explain path={"v1/claims/" + part(explain) + "/explain"} />}
      {list.data && (list.data.length === 0 ? <p class="pad quiet">{t("noClaims")}</p> : <Table caption={t("claims")} rows={list.data} id={(c) => c.key} more={list.more} busy={list.reading} columns={[
        { key: "key", head: t("key"), grow: true, cell: (c) => <button type="button" class="link mono" onClick={() => setQuery({ claim: c.key })}><T s={c.key} /></button> },
        { key: "owner", head: t("node"), cell: (c) => (c.owner ? <T s={c.owner} /> : <span class="bad-text">{t("noneNow")}</span>) },
        { key: "since", head: t("since"), cell: (c) => <When at={c.since} /> },
        { key: "until", head: t("until"), cell: (c) => <When at={c.until} /> },
        { key: "assigned", head: t("assigned"), cell: (c) => (c.assigned ? <><T s={c.assigned.node} /> <span class="quiet">{t("until")} <When at={c.assigned.until} /></span></> : "") },
        { key: "act", head: t("actions"), cell: (c) => <span class="row">{may("operate") && <button type="button" onClick={() => setGiven(c)}>{t("giveTo")}</button>}{c.owner && <Act label={t("giveBack")} does={() => send("POST", "v1/claims/release", { key: c.key })} after={list.again} ask={t("giveBackAsk")} />}</span> },
      ]} />)}
    </Panel>
  );
}

// Give gives a key to a node for a while.
function Give({ claim, nodes, close, after }: { claim: Claim; nodes: string[]; close: () => void; after: () => void }) {
  const [node, setNode] = useState(claim.assigned?.node ?? nodes.find((n) => n !== claim.owner) ?? nodes[0] ?? "");
  const [time, setTime] = useState("1h");
  const [error, setError] = useState<unknown>(null);
  const give = async () => {
    try { await send("POST", "v1/claims/assign", { key: claim.key, node, for: time }); say(t("doneThat", { what: t("giveTo") })); close(); after(); } catch (err) { setError(err); }
  };
  return (
    <Dialog title={t("giveTo")} close={close}>
      <p><T s={claim.key} /></p><p class="quiet">{t("giveToAsk")}</p>
      <form class="grid" onSubmit={(e) => { e.preventDefault(); void give(); }}>
        <Field label={t("node")}><select value={node} onChange={(e) => setNode(e.currentTarget.value)}>{nodes.map((n) => <option key={n}>{n}</option>)}</select></Field>
        <Field label={t("forTime")}><input required value={time} onInput={(e) => setTime(e.currentTarget.value)} /></Field>
        <div class="full"><Fault error={error} /></div>
        <div class="row end full"><button type="button" onClick={close}>{t("cancelThis")}</button><button type="submit" class="main">{t("giveTo")}</button></div>
      </form>
    </Dialog>
  );
}
