import { base, part, send } from "./api";
import { number, t } from "./i18n";
import { usePages } from "./load";
import { to } from "./route";
import { Filter, Table, matches } from "./table";
import { T } from "./text";
import { When } from "./time";
import { Act, Empty, Fault, Mark, Title, say } from "./ui";

type Notifier = { name: string; kind: string; on: string[]; subjects?: string[]; to?: string[]; url?: string; command?: string[]; queue?: string; signed: boolean; delivered: number; failing: string | null; trouble: string };

export function NotifiersScreen() {
  const list = usePages<Notifier>("v1/notifiers?limit=500", 5000);
  const rows = (list.data ?? []).filter((n) => matches(n.name, n.kind, n.on.join(" "), n.url, (n.to ?? []).join(" ")));
  return (
    <>
      <Title>{t("notifiers")}</Title>
      <Filter label={t("filterNotifiers")} />
      <Fault error={list.error} again={list.again} />
      {list.data && (list.data.length === 0 ? <Empty command={`rota notifier set ops --server ${base.replace(/\/$/, "")} --on 'node.*,queue.unserved' --url-file url`}>{t("noNotifiers")}</Empty> : rows.length === 0 && !list.more ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("notifiers")} rows={rows} id={(n) => n.name} sorts more={list.more} busy={list.reading} columns={[
        { key: "name", head: t("notifier"), by: (n) => n.name, cell: (n) => <strong><T s={n.name} /></strong> },
        { key: "kind", head: t("kind"), by: (n) => n.kind, cell: (n) => n.kind },
        { key: "on", head: t("onEvents"), cell: (n) => n.on.map((k) => <a class="label" key={k} href={to(["events"], { kind: k })}><T s={k} /></a>) },
        { key: "to", head: t("goesTo"), grow: true, cell: (n) => <T s={n.url ?? n.to?.join(", ") ?? n.command?.join(" ") ?? n.queue ?? ""} /> },
        { key: "state", head: t("state"), cell: (n) => (n.failing ? <><Mark state="failed" /> <When at={n.failing} /><div class="bad-text"><T s={n.trouble} /></div></> : <Mark state="working" />) },
        { key: "seq", head: t("delivered"), num: true, by: (n) => n.delivered, cell: (n) => number(n.delivered) },
        { key: "act", head: t("actions"), cell: (n) => <span class="row"><Act label={t("test")} need="destroy" does={async () => {
          const a = await send<{ delivered: boolean; trouble?: string }>("POST", "v1/notifiers/" + part(n.name) + "/test", undefined, "destroy");
          if (!a.delivered) { say("", new Error(a.trouble || t("notDelivered"))); return t("notDelivered") + ": " + (a.trouble ?? ""); }
          return t("wasDelivered");
        }} after={list.again} /><Act label={t("remove")} kind="bad" need="destroy" does={() => send("DELETE", "v1/notifiers/" + part(n.name), undefined, "destroy")} after={list.again} ask={t("removeNotifier")} /></span> },
      ]} />)}
    </>
  );
}
