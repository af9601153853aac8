// Group keys of a queue: how much work each has, and what is said of it.
import { useState } from "preact/hooks";
import { may, part, send } from "./api";
import { number, t } from "./i18n";
import { useLoad } from "./load";
import { Table } from "./table";
import { T } from "./text";
import { When } from "./time";
import { Act, Dialog, Empty, Fault, Field, Mark, Panel, say } from "./ui";

type QueueKey = { key: string; ready: number; running: number; weight: number; paused: boolean; paused_until: string | null; state: string; opens_at: string | null };

const most = 50;

// Looking at keys may cost a node up to 20,000 rows, so it is done seldom.
export function Keys({ path, fair }: { path: string; fair: boolean }) {
  const list = useLoad<{ items: QueueKey[]; cut: boolean }>(path + "/keys?limit=" + most, 10_000);
  const rows = list.data?.items ?? [];
  // A browser takes "." and ".." in a path for steps up in it, however they are written: the key stands in the query.
  const at = (k: QueueKey, verb = "") => path + "/keys/-" + verb + "?key=" + part(k.key);
  return (
    <Panel title={t("groupKeys")} side={<span class="quiet">{rows.length >= most && t("keysMost", { n: most })} {list.data?.cut && t("keysCut")}</span>}>
      <Fault error={list.error} again={list.again} />
      {list.data && (rows.length === 0 ? <Empty>{t("noKeys")}</Empty> : <Table caption={t("groupKeys")} rows={rows} id={(k) => k.key} sorts columns={[
        { key: "key", head: t("groupKey"), grow: true, by: (k) => k.key, cell: (k) => <strong><T s={k.key} /></strong> },
        { key: "ready", head: t("ready"), num: true, by: (k) => k.ready, cell: (k) => number(k.ready) },
        { key: "running", head: t("running"), num: true, by: (k) => k.running, cell: (k) => number(k.running) },
        { key: "weight", head: t("weight"), num: true, by: (k) => k.weight, cell: (k) => number(k.weight) },
        { key: "state", head: t("state"), by: (k) => k.state, cell: (k) => <Mark state={k.state} /> },
        { key: "opens", head: t("opensAt"), cell: (k) => k.opens_at && <When at={k.opens_at} /> },
        { key: "act", head: t("actions"), cell: (k) => <div class="row">{k.paused ? <Act label={t("resume")} kind="main" does={() => send("POST", at(k, "/resume"))} after={list.again} />
          : <Act label={t("pause")} does={() => send("POST", at(k, "/pause"), {})} after={list.again} ask={t("pauseKey")} />}
          {fair && <Weigh of={k} path={at(k)} after={list.again} />}</div> },
      ]} />)}
    </Panel>
  );
}

// Weigh says how many tasks a turn of a key has.
function Weigh({ of: k, path, after }: { of: QueueKey; path: string; after: () => void }) {
  const [weight, setWeight] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  if (!may("operate")) return null;
  const close = () => { setWeight(null); setError(null); };
  const save = async () => {
    try { await send("PUT", path, { weight: Number(weight) }); say(t("saved")); close(); after(); } catch (err) { setError(err); }
  };
  return (
    <>
      <button type="button" onClick={() => setWeight(String(k.weight))}>{t("weigh")}</button>
      {weight !== null && <Dialog title={t("weigh")} close={close}>
        <form onSubmit={(e) => { e.preventDefault(); void save(); }}>
          <strong><T s={k.key} /></strong>
          <Field label={t("weight")} hint={t("weighHint")}><input type="number" min={1} step={1} required value={weight} onInput={(e) => setWeight(e.currentTarget.value)} /></Field>
          <Fault error={error} />
          <div class="row end"><button type="button" onClick={close}>{t("cancelThis")}</button><button type="submit" class="main">{t("save")}</button></div>
        </form>
      </Dialog>}
    </>
  );
}
