// Group keys of a queue: how much work each has, and what is said of it.
import { part, send } from "./api";
import { number, t } from "./i18n";
import { useLoad } from "./load";
import { Table } from "./table";
import { T } from "./text";
import { When } from "./time";
import { Act, Empty, Fault, Mark, Panel } from "./ui";

type QueueKey = { key: string; ready: number; running: number; weight: number; paused: boolean; paused_until: string | null };

// Looking at keys may cost a node up to 20,000 rows, so it is done seldom.
export function Keys({ path }: { path: string }) {
  const list = useLoad<{ items: QueueKey[]; cut: boolean }>(path + "/keys?limit=50", 10_000);
  const rows = list.data?.items ?? [];
  const at = (k: QueueKey) => path + "/keys/" + part(k.key);
  const dots = (k: QueueKey) => k.key === "." || k.key === ".."; // a browser takes them for steps up in the path
  return (
    <Panel title={t("groupKeys")} side={list.data?.cut && <span class="quiet">{t("keysCut")}</span>}>
      <Fault error={list.error} again={list.again} />
      {list.data && (rows.length === 0 ? <Empty>{t("noKeys")}</Empty> : <Table caption={t("groupKeys")} rows={rows} id={(k) => k.key} sorts columns={[
        { key: "key", head: t("groupKey"), grow: true, by: (k) => k.key, cell: (k) => <strong><T s={k.key} /></strong> },
        { key: "ready", head: t("ready"), num: true, by: (k) => k.ready, cell: (k) => number(k.ready) },
        { key: "running", head: t("running"), num: true, by: (k) => k.running, cell: (k) => number(k.running) },
        { key: "weight", head: t("weight"), num: true, by: (k) => k.weight, cell: (k) => number(k.weight) },
        { key: "paused", head: t("pausedUntil"), cell: (k) => k.paused && (k.paused_until ? <When at={k.paused_until} /> : <Mark state="paused" />) },
        { key: "act", head: t("actions"), cell: (k) => (k.paused ? <Act label={t("resume")} kind="main" off={dots(k)} does={() => send("POST", at(k) + "/resume")} after={list.again} />
          : <Act label={t("pause")} off={dots(k)} does={() => send("POST", at(k) + "/pause", {})} after={list.again} ask={t("pauseKey")} />) },
      ]} />)}
    </Panel>
  );
}
