// What a drain of a worker costs, before it is done: all of it or a part, with a deadline or without.
import { useEffect, useState } from "preact/hooks";
import { part, send } from "./api";
import { number, t } from "./i18n";
import { T } from "./text";
import { Act, Fault, Field } from "./ui";

type Price = { moves: number; jobs: number; tasks: number; minutes: number; breaks: string[]; add?: string; effect?: string };

export function DrainForm({ name, done }: { name: string; done: (left: number) => void }) {
  const path = "v1/workers/" + part(name) + "/drain";
  const [shed, setShed] = useState("");
  const [deadline, setDeadline] = useState("");
  const [force, setForce] = useState(false);
  const [price, setPrice] = useState<Price | null>(null);
  const [error, setError] = useState<unknown>(null);
  const body = (dry: boolean, force: boolean) => ({ ...(shed ? { shed: Number(shed) } : {}), ...(deadline.trim() ? { deadline: deadline.trim() } : {}), force, dry_run: dry });
  const reckon = async () => {
    setError(null);
    setForce(false);
    try { setPrice(await send("POST", path, body(true, false), "operate")); } catch (err) { setPrice(null); setError(err); }
  };
  useEffect(() => void reckon(), [name]);
  const change = (set: (v: string) => void) => (e: { currentTarget: HTMLInputElement }) => { set(e.currentTarget.value); setPrice(null); };
  return (
    <section aria-label={t("drain")}>
      <form class="grid" onSubmit={(e) => { e.preventDefault(); void reckon(); }}>
        <Field label={t("drainShed")}><input type="number" min="0.001" step="any" value={shed} onInput={change(setShed)} /></Field>
        <Field label={t("drainDeadline")}><input value={deadline} placeholder="10m" onInput={change(setDeadline)} /></Field>
        <div class="row end full"><button type="submit">{t("reckon")}</button></div>
      </form>
      <Fault error={error} />
      {price && <>
        <p class="big" role="status">{t("drainCosts", { j: number(price.jobs), m: number(price.moves), t: number(price.tasks), d: number(price.minutes, 1) })}</p>
        {price.effect && <p><T s={price.effect} /></p>}
        {price.breaks.length > 0 && <><p class="warn-text">{t("drainBreaks")} <T s={price.breaks.join(", ")} />. <T s={price.add ?? ""} /></p>
          <label class="check"><input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} /> {t("drainForce")}</label></>}
        <div class="row end"><Act label={t("drainNow")} kind="main" does={() => send("POST", path, body(false, force))} after={() => done(price.tasks + price.jobs)} /></div>
      </>}
    </section>
  );
}
