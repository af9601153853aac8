// Acting on all tasks that a filter selects: counted first, then page by page, with progress and a way to stop.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, may } from "./api";
import { EditForm, nothing } from "./edit";
import { number, t } from "./i18n";
import { T } from "./text";
import { Dialog, Fault } from "./ui";

export type BulkFilter = Record<string, string | boolean | Record<string, string>>;
type Answer = { matched: number; changed: number; next?: string };

type Props = { verb: "retry" | "cancel" | "patch"; offered: boolean; filter: BulkFilter; words: string; done: () => void };

// Bulk has a button where it is offered. What was begun goes on, by the filter that it began with: the screen may show another
// one meanwhile, as the reader went back. It stops when the screen is left, as nobody could stop it then.
export function Bulk({ verb, offered, filter, words, done }: Props) {
  const [open, setOpen] = useState(false);
  const [matched, setMatched] = useState(0);
  const [changed, setChanged] = useState(0);
  const [phase, setPhase] = useState<"counting" | "ask" | "acting" | "end">("counting");
  const [error, setError] = useState<unknown>(null);
  const [asks, setAsks] = useState(false);
  const stop = useRef(false), set = useRef(""), chosen = useRef({ filter, words });
  useEffect(() => () => { stop.current = true; }, []);
  if (!may("operate")) return null;
  const label = t(({ retry: "retryAll", cancel: "cancelAll", patch: "editAll" } as const)[verb]);
  const body = () => (Object.keys(chosen.current.filter).length ? chosen.current.filter : { all: true });

  // walk goes over all pages; each says how many it selected.
  const walk = async (dry: boolean, each: (a: Answer) => void) => {
    for (let cursor = ""; !stop.current;) {
      const raw = JSON.stringify({ filter: body(), dry_run: dry, cursor }).slice(0, -1) + (set.current && ',"set":' + set.current) + "}";
      const a = JSON.parse(await call("POST", "v1/tasks/" + verb, { raw, need: "operate" })) as Answer;
      each(a);
      if (!a.next) return;
      cursor = a.next;
    }
  };
  const count = async () => {
    stop.current = false;
    setOpen(true); setPhase("counting"); setMatched(0); setChanged(0); setError(null);
    try { await walk(true, (a) => setMatched((n) => n + a.matched)); if (!stop.current) setPhase("ask"); } catch (err) { setError(err); setPhase("end"); }
  };
  const act = async () => {
    stop.current = false;
    setPhase("acting");
    try { await walk(false, (a) => setChanged((n) => n + a.changed)); } catch (err) { setError(err); }
    setPhase("end");
    done();
  };
  const begin = () => {
    chosen.current = { filter, words };
    if (verb === "patch") setAsks(true);
    else void count();
  };
  const close = () => { stop.current = true; setOpen(false); };
  return (
    <>
      {offered && <button type="button" class={verb === "cancel" ? "bad" : ""} onClick={begin}>{label}</button>}
      {asks && <EditForm begin={nothing} title={label} go={t("countFirst")} close={() => setAsks(false)} does={async (what) => { set.current = what; setAsks(false); void count(); }} />}
      {open && <Dialog title={label} close={phase === "acting" ? undefined : close}>
        <p><T s={chosen.current.words || t("allTasks")} /></p>
        {verb === "patch" && <p><T s={set.current} /></p>}
        <p class="big" role="status">{phase === "counting" ? t("counting", { n: number(matched) }) : phase === "ask" ? t("willChange", { n: number(matched) }) : t("changedSoFar", { n: number(changed), m: number(matched) })}</p>
        <progress max={Math.max(1, matched)} value={phase === "counting" ? undefined : phase === "ask" ? 0 : phase === "end" && !error ? Math.max(1, matched) : changed} aria-label={label} />
        <Fault error={error} />
        <div class="row end">
          {phase === "acting" ? <button type="button" onClick={() => { stop.current = true; }}>{t("stop")}</button> : <button type="button" onClick={close}>{phase === "end" ? t("close") : t("cancelThis")}</button>}
          {phase === "ask" && <button type="button" class={verb === "cancel" ? "bad" : "main"} disabled={matched === 0} onClick={act}>{label}</button>}
        </div>
      </Dialog>}
    </>
  );
}
