import { access, base, type Right } from "./api";
import { known, t, type Key } from "./i18n";
import { overview } from "./live";
import { useLoad } from "./load";
import { T } from "./text";
import { Dur } from "./time";
import { Facts, Fault, Mark, Panel, Title } from "./ui";

type Ready = { status: string; ready?: boolean; store?: string; durability?: string; joined?: boolean; clock_offset?: string; detail?: string; age?: string };
type Health = { status: string; node?: string; store?: string };

const rights: [Right, Key][] = [["read", "mayRead"], ["submit", "maySubmit"], ["work", "mayWork"], ["operate", "mayOperate"], ["destroy", "mayDestroy"]];

export function AboutScreen() {
  const ready = useLoad<Ready>("readyz", 5000);
  const health = useLoad<Health>("healthz", 30_000);
  const a = access.value, r = ready.data;
  return (
    <>
      <Title>{t("about")}</Title>
      <div class="two">
        <Panel title={t("thisNode")}>
          <Fault error={ready.error} />
          <Facts of={[
            [t("node"), health.data?.node && <T s={health.data.node} />], [t("version"), overview.value && <T s={overview.value.version} />], [t("state"), r && <><Mark state={r.status === "ok" ? "working" : "unreachable"} bare /> {r.status === "ok" ? t("isReady") : t("isNotReady")}</>],
            [t("detail"), r?.detail && <T s={r.detail} />], [t("store"), r?.store], [t("durability"), r?.durability], [t("clockOffset"), r?.clock_offset && <Dur d={r.clock_offset} />], [t("address"), <code>{base}</code>],
          ]} />
        </Panel>
        <Panel title={t("you")}>
          {a ? <><Facts of={[[t("name"), a.anonymous ? t("anonymous") : <T s={a.name} />], [t("role"), <strong>{a.role}</strong>], [t("scope"), a.scope ? <T s={Object.entries(a.scope).filter(([, v]) => v && (!Array.isArray(v) || v.length)).map(([k, v]) => k + "=" + (Array.isArray(v) ? v.join(",") : String(v))).join(" ")} /> : t("everything")]]} />
            <ul class="rights">{rights.map(([right, key]) => <li key={right}><Mark state={a.may.includes(right) ? "done" : "cancelled"} bare /> <span class={a.may.includes(right) ? "" : "quiet"}>{t(key)}</span></li>)}</ul></>
            : <p class="pad quiet">{a === null ? t("unknownRights") : t("reading")}</p>}
        </Panel>
      </div>
      <Panel title={t("more2")}><ul class="links">
        <li><a href="docs">{t("apiDocs")}</a></li><li><a href="openapi.json">OpenAPI</a></li><li><a href="metrics">{t("metrics")}</a></li>
      </ul><p class="pad quiet">Preact 11.2.0, @preact/signals 2.11.4 · MIT · {known("word", "noOutside")}</p></Panel>
    </>
  );
}
