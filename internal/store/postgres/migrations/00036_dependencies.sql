-- Tasks that wait for other tasks: see docs/waiting.md. Bit 1 of the ids of batches of such tasks is set (store.DependBit).
-- What tasks wait for that wait for other tasks, or have waited for. Rows go with the one that waits.
CREATE TABLE rota.dependency (
  batch    bigint  NOT NULL,                  -- who waits
  n        int     NOT NULL,
  i        int     NOT NULL,                  -- their order
  on_batch bigint  NOT NULL,                  -- for what
  on_n     int     NOT NULL,
  seq      int,                               -- of the step with which that ended, as a look has seen it; -1 = it was gone
  ended    boolean NOT NULL,                  -- any end will do; false = it has to be done
  state    text    COLLATE "C",               -- in which it ended; NULL = open
  ref      text    NOT NULL,                  -- what the submission called it; '' = by its id
  address  text    COLLATE "C" NOT NULL,      -- where somebody looks when it ends
  PRIMARY KEY (batch, n, i)
);
CREATE INDEX dependency_on ON rota.dependency (on_batch, on_n, batch, n);
-- What nobody has looked at yet: asked of whatever ends.
CREATE INDEX dependency_open ON rota.dependency (on_batch, on_n, batch, n, i) WHERE state IS NULL;
ALTER TABLE rota.dependency SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Ends of tasks that a look has found not to be over, while transactions were in progress that may end them and may not have seen who waits.
-- Looks come back until all of these are over.
CREATE TABLE rota.unseen (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  address text   COLLATE "C" NOT NULL,
  horizon bigint NOT NULL                     -- of those transactions all ids are less
);
ALTER TABLE rota.unseen SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- finish says that a task is over if others wait for it. What was committed since the snapshot of a caller's transaction is not seen at other
-- levels than READ COMMITTED, so there it says so of every task. Who was allowed to call it still is.
CREATE OR REPLACE FUNCTION rota.finish(
  task text, token text, result json DEFAULT NULL, next_stage text DEFAULT NULL, context json DEFAULT NULL,
  worker text DEFAULT NULL, ran_for interval DEFAULT NULL, delay interval DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
  SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  parts   text[] := string_to_array(finish.token, '.');
  over    boolean := next_stage IS NULL;
  at      bigint := rota.micros(NULL);
  in_batch bigint;
  number   int;
  of_span  bigint;
  hand     bigint;  -- the span's token at the hand-out
  at_seq   int;
  sealed   numeric;
  fact     record;  -- the task as its newest step left it
  runs     record;  -- the running row at the hand-out's seq
  wait     bigint := least(coalesce(extract(epoch FROM finish.delay) * 1000000, 0), 9e18)::bigint;
  moves    boolean := wait > 60000000;  -- for so long it leaves the span, and its holder's memory: see package progress
  shown    text;  -- of its number, as ids have them
  marked   boolean := false;  -- whether the outcome of the first hand-out stands in a mark
  stale    CONSTANT text := 'finish: the hand-out is no longer yours';
BEGIN
  IF (octet_length(finish.task) BETWEEN 15 AND 21) IS NOT TRUE OR cardinality(parts) IS DISTINCT FROM 5 THEN
    RAISE 'finish: task and token must be those of a hand-out' USING ERRCODE = '22023';
  ELSIF finish.result IS NOT NULL AND NOT over THEN
    RAISE 'finish: only a task that is done keeps a result' USING ERRCODE = '22023';
  ELSIF NOT over AND (octet_length(next_stage) NOT BETWEEN 1 AND 128 OR next_stage ~ '[[:cntrl:]]') THEN
    RAISE 'finish: next_stage must be 1 to 128 bytes of printable text' USING ERRCODE = '22023';
  ELSIF wait <> 0 AND (over OR wait NOT BETWEEN 0 AND 3153600000000000) THEN
    RAISE 'finish: delay is how long the stage that follows waits, 0 to 100 years' USING ERRCODE = '22023';
  ELSIF octet_length(finish.worker) NOT BETWEEN 1 AND 128 OR ran_for < '0' THEN
    RAISE 'finish: worker must be 1 to 128 bytes, ran_for not negative' USING ERRCODE = '22023';
  END IF;
  in_batch := rota.digits(left(finish.task, 13));
  number := rota.digits(substr(finish.task, 15));
  of_span := rota.digits(parts[1]);
  hand := rota.digits(parts[2]);
  at_seq := rota.digits(parts[3]);
  SELECT rota.seal(s.secret, '\x68'::bytea || int8send(in_batch) || int4send(number) || int8send(of_span) || int8send(hand)
    || int4send(at_seq)) INTO sealed FROM rota.store s;
  IF sealed IS DISTINCT FROM rota.digits(parts[4]) THEN
    RAISE 'finish: the token is not one of this task' USING ERRCODE = 'RT002';
  END IF;

  -- As settlements do it: nobody takes the span until this is committed, and what is read after the lock is what those wrote who had it.
  PERFORM FROM rota.span s WHERE s.id = of_span FOR SHARE;
  -- And nobody writes into the pack's mark until this is committed: the outcome of a first hand-out stands either there or as a step.
  IF at_seq = 0 THEN
    PERFORM pg_advisory_xact_lock_shared(in_batch # ((number >> 6)::bigint << 32));
    marked := EXISTS (SELECT FROM rota.mark m WHERE m.batch = in_batch AND m.lo = (number & -64) AND (m.bits >> (number & 63)) & 1 = 1);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      -- What was committed since the transaction's snapshot is not seen; the key of mark knows it, and says so by 40001. The row is undone.
      BEGIN
        INSERT INTO rota.mark (batch, lo, bits, body, last) VALUES (in_batch, number & -64, 0, '', 0) ON CONFLICT DO NOTHING;
        RAISE USING ERRCODE = 'RT000';
      EXCEPTION WHEN SQLSTATE 'RT000' THEN NULL;
      END;
    END IF;
  END IF;
  SELECT b.queue, coalesce(e.head_start, b.due - b.rank) AS head_start, coalesce(q.context_limit, 16777216) AS context_limit,
    coalesce(p.stage, p.ran, t.stage) AS stage, coalesce(p.seq, -1) AS seq, coalesce(p.attempt, 0) AS attempt,
    coalesce(p.base, 0) AS base, p.context_seq, s.id IS NOT NULL AS held, greatest(b.due, p.due) AS ready
  INTO fact
  FROM rota.task(in_batch, number) t JOIN rota.batch b ON b.id = t.batch LEFT JOIN rota.queue q ON q.name = b.queue
  LEFT JOIN LATERAL (SELECT * FROM rota.step WHERE step.batch = t.batch AND step.n = t.n ORDER BY step.seq DESC LIMIT 1) p ON true
  LEFT JOIN LATERAL (SELECT edit.head_start FROM rota.edit WHERE edit.batch = t.batch AND edit.n = t.n ORDER BY edit.seq DESC LIMIT 1) e ON true
  LEFT JOIN rota.span s ON s.id = of_span AND s.batch = t.batch AND s.token = hand AND t.n BETWEEN s.lo AND s.hi;
  SELECT u.span, u.token, u.worker, u.started INTO runs
  FROM rota.running u WHERE u.batch = in_batch AND u.n = number AND u.seq = at_seq;
  IF fact.queue IS NULL THEN
    RAISE 'finish: there is no such task' USING ERRCODE = 'RT002';
  ELSIF marked OR fact.base = -1 OR fact.seq + 1 <> at_seq
    OR NOT (CASE WHEN runs.span IS NULL THEN fact.held ELSE runs.span = of_span AND runs.token = hand END) THEN
    RAISE '%', stale USING ERRCODE = 'RT002';
  ELSIF greatest(octet_length(finish.result::text), octet_length(finish.context::text)) > fact.context_limit THEN
    RAISE 'finish: result and context may have at most % bytes each in queue %', fact.context_limit, fact.queue USING ERRCODE = '22023';
  END IF;

  -- The fence. Who stands at the seq already has committed; who is about to is waited for. -1 is the hash of what was recorded here.
  INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, kind, attempt, base, ran, stage, worker, context_seq, due, result,
    context)
  VALUES (in_batch, number, at_seq, hand, -1, coalesce(runs.started, at - (extract(epoch FROM coalesce(ran_for, '0')) * 1000000)::bigint), at,
    CASE WHEN over THEN 1 ELSE 2 END, CASE WHEN over THEN fact.attempt + 1 ELSE 0 END,
    CASE WHEN over THEN -1 WHEN moves THEN at_seq + 1 ELSE fact.base END,
    fact.stage, nullif(next_stage, fact.stage), coalesce(runs.worker, finish.worker),
    CASE WHEN finish.context IS NULL THEN fact.context_seq ELSE at_seq END, CASE WHEN NOT over THEN at + wait END,
    rota.kept(in_batch, number, finish.result), rota.kept(in_batch, number, finish.context))
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RAISE '%', stale USING ERRCODE = 'RT002';
  END IF;
  DELETE FROM rota.running u WHERE u.batch = in_batch AND u.n = number AND u.seq = at_seq;
  IF moves THEN
    -- Of each block of ids this uses the first: none is ever given twice.
    INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths, size, gaps)
    VALUES (nextval('rota.span_block') * 16384, in_batch, number, number, at_seq + 1, fact.queue, at + wait - fact.head_start,
      at + wait, 0, 0, 0, 1, false);
  END IF;
  INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
  VALUES (fact.queue, 0, 0, over::int, 0, 0, 1, 0, 0);
  IF over AND in_batch & 1 = 1 THEN
    INSERT INTO rota.change (address, done) SELECT c.address, 1 FROM rota.child_batch c WHERE c.batch = in_batch;
  END IF;
  -- By a later statement than the one that inserted the step: whoever begins to wait for the task and is not seen here looks until this is over.
  IF over AND current_setting('transaction_isolation') = 'read committed' THEN
    INSERT INTO rota.change (address) SELECT DISTINCT d.address FROM rota.dependency d
    WHERE d.on_batch = in_batch AND d.on_n = number AND d.state IS NULL;
  ELSIF over THEN
    shown := coalesce(nullif(ltrim(substr(finish.task, 15), '0'), ''), '0');
    INSERT INTO rota.change (address) VALUES ('e ' || left(finish.task, 13) || length(shown) || shown);
  END IF;
  INSERT INTO rota.history_change (body)
  SELECT convert_to(json_build_object('queue', fact.queue, 'stage', fact.stage, 'next', coalesce(next_stage, ''), 'worker', coalesce(p.worker, ''),
    'ready', fact.ready, 'started', p.started, 'at', at)::text, 'UTF8')
  FROM rota.step p WHERE p.batch = in_batch AND p.n = number AND p.seq = at_seq;
  IF current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN '1ms' AND '5s' THEN
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  END IF;
END $$;
