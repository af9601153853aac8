import { part, send } from "./api";
import { number, t } from "./i18n";
import { usePages } from "./load";
import { Filter, Table, matches } from "./table";
import { T } from "./text";
import { Act, Empty, Fault, Title } from "./ui";
import { to } from "./route";

type Hook = { name: string; scheme: string; secret_count: number; queue?: string; stage?: string; group_key?: string; signal?: string; key?: string };

export function HooksScreen() {
  const list = usePages<Hook>("v1/hooks?limit=500", 5000);
  const rows = (list.data ?? []).filter((h) => matches(h.name, h.scheme, h.queue, h.signal));
  return (
    <>
      <Title>{t("hooks")}</Title>
      <Filter label={t("filterHooks")} />
      <Fault error={list.error} again={list.again} />
      {list.data && (list.data.length === 0 ? <Empty command="rota hook set builds --scheme github --secret-file secret --queue builds">{t("noHooks")}</Empty> : rows.length === 0 && !list.more ? <Empty>{t("noMatch")}</Empty> : <Table caption={t("hooks")} rows={rows} id={(h) => h.name} sorts more={list.more} busy={list.reading} columns={[
        { key: "name", head: t("hook"), by: (h) => h.name, cell: (h) => <strong><T s={h.name} /></strong> },
        { key: "scheme", head: t("scheme"), by: (h) => h.scheme, cell: (h) => h.scheme },
        { key: "becomes", head: t("becomes"), grow: true, cell: (h) => (h.queue ? <><a href={to(["queues", h.queue])}><T s={h.queue} /></a>{h.stage && <> · <T s={h.stage} /></>}</> : <>{t("signal")} <T s={h.signal ?? ""} /> · <T s={h.key ?? ""} /></>) },
        { key: "secrets", head: t("secrets"), num: true, by: (h) => h.secret_count, cell: (h) => number(h.secret_count) },
        { key: "act", head: t("actions"), cell: (h) => <Act label={t("remove")} kind="bad" need="destroy" does={() => send("DELETE", "v1/hooks/" + part(h.name), undefined, "destroy")} after={list.again} ask={t("removeHook")} /> },
      ]} />)}
    </>
  );
}
