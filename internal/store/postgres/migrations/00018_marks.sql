-- Marks: how the tasks of a pack (64 numbers of a batch, from a multiple of 64 on) ended at their first hand-out, in one row. Package pack
-- says what a body is, and doc.go which outcomes stand here, and which as steps. An outcome at seq 0 stands either here, with its bit set, or
-- as a step. Steps that stand stay steps.
CREATE TABLE rota.mark (
  batch bigint NOT NULL,
  bits  bigint NOT NULL,                  -- bit i: the outcome of number lo + i stands in the body
  last  bigint NOT NULL,                  -- no outcome in the body is later than this
  lo    int    NOT NULL,                  -- a multiple of 64
  body  bytea  NOT NULL,
  PRIMARY KEY (batch, lo)
) PARTITION BY RANGE (batch);
ALTER TABLE rota.mark ALTER body SET STORAGE EXTERNAL;

-- Its partitions have the bounds and the names of those of step.
DO $$
DECLARE
  p record;
BEGIN
  LOCK TABLE rota.step IN SHARE UPDATE EXCLUSIVE MODE;
  FOR p IN SELECT 'mark' || substr(c.relname, 5) AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'rota.step'::regclass LOOP
    EXECUTE format('CREATE TABLE rota.%I PARTITION OF rota.mark %s WITH (fillfactor = 80, toast_tuple_target = 8160)', p.name, p.bounds);
  END LOOP;
END $$;

-- Ends a transaction that wanted some packs for itself, when others use them: busy are their places.
CREATE FUNCTION rota.alone(free boolean, busy int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT free OR cardinality(busy) > 0 THEN
    RAISE 'others use the packs' USING ERRCODE = 'RT003', DETAIL = CASE WHEN free THEN array_to_string(busy, ',') ELSE '' END;
  END IF;
END $$;

-- A number as a body has it: seven bits a byte, the least first; and one with a sign.
CREATE FUNCTION rota.varint(body bytea, INOUT at int, OUT value bigint) LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  shift int := 0;
  digit int;
BEGIN
  value := 0;
  LOOP
    digit := get_byte(body, at);
    at := at + 1;
    value := value | ((digit & 127)::bigint << shift);
    EXIT WHEN digit < 128;
    shift := shift + 7;
  END LOOP;
END $$;
CREATE FUNCTION rota.signed(given bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS
$$ SELECT ((given >> 1) & 9223372036854775807) # -(given & 1) $$;

-- What stands in the body of a mark. It takes some 20 microseconds an outcome: for people and audits, not for nodes.
CREATE FUNCTION rota.marked(body bytea, lo int) RETURNS TABLE (n int, token bigint, started bigint, finished bigint, worker text, result bytea)
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  at      int := 0;
  flags   int;
  size    bigint;
  v       bigint;
  members bigint;
BEGIN
  WHILE at < octet_length(body) LOOP
    flags := get_byte(body, at);
    SELECT * INTO at, size FROM rota.varint(body, at + 1);
    worker := convert_from(substr(body, at + 1, size::int), 'UTF8');
    SELECT * INTO at, v FROM rota.varint(body, at + size::int);
    token := rota.signed(v);
    members := 0;
    FOR i IN 0 .. 7 LOOP
      members := members | (get_byte(body, at + i)::bigint << (8 * i));
    END LOOP;
    at := at + 8;
    started := 0;
    FOR i IN 0 .. 63 LOOP
      CONTINUE WHEN (members >> i) & 1 = 0;
      SELECT * INTO at, v FROM rota.varint(body, at);
      started := started + rota.signed(v);
      SELECT * INTO at, v FROM rota.varint(body, at);
      finished := started + rota.signed(v);
      n := lo + i;
      result := NULL;
      IF flags & 1 = 1 THEN
        SELECT * INTO at, size FROM rota.varint(body, at);
        IF size > 0 THEN
          result := substr(body, at + 1, size::int - 1);
          at := at + size::int - 1;
        END IF;
      END IF;
      RETURN NEXT;
    END LOOP;
  END LOOP;
END $$;

-- All outcomes, those in marks as if they were steps (the stage that ran is the task's).
CREATE VIEW rota.outcome AS
SELECT batch, n, seq, token, started, finished, attempt, base, kind::int AS kind, worker, due, error, result FROM rota.step
UNION ALL
SELECT m.batch, d.n, 0, d.token, d.started, d.finished, 1, -1, 1, nullif(d.worker, ''), NULL, NULL, d.result
FROM rota.mark m CROSS JOIN LATERAL rota.marked(m.body, m.lo) d;

-- Nodes of the version before know nothing of marks. What they still have to report is recorded beside those that stand: who inserts a
-- step at seq 0 without saying that it looked, and locked the pack before, has that done here. They see a mark as somebody else's outcome.
ALTER TABLE rota.step ADD COLUMN fenced boolean;
CREATE FUNCTION rota.fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(NEW.batch # ((NEW.n >> 6)::bigint << 32));
  IF EXISTS (SELECT FROM rota.mark m WHERE m.batch = NEW.batch AND m.lo = (NEW.n & -64) AND (m.bits >> (NEW.n & 63)) & 1 = 1) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fence BEFORE INSERT ON rota.step FOR EACH ROW WHEN (NEW.seq = 0 AND NEW.fenced IS NULL) EXECUTE FUNCTION rota.fence();

-- And they take and hand out nothing any more, since they would not see that tasks are done: their memberships end here, as when they had
-- been silent for a lease, and they get no new ones. As a rule they open the store again then, are refused, and end.
ALTER TABLE rota.lease ADD COLUMN marks boolean NOT NULL DEFAULT false; -- whether its holder knows marks
UPDATE rota.lease l SET until = m.until FROM rota.lease m
WHERE m.name LIKE 'node/%' AND m.until > 0 AND l.until = 9223372036854775807 AND l.holder = m.holder;
UPDATE rota.lease SET token = token + 1, until = 0 WHERE name LIKE 'node/%';
ALTER TABLE rota.lease ADD CONSTRAINT lease_knows_marks CHECK (marks OR until = 0 OR name NOT LIKE 'node/%');

-- finish looks at marks, too. Who was allowed to call it still is.
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
  SELECT b.queue, b.due - b.rank AS head_start, coalesce(q.context_limit, 16777216) AS context_limit,
    coalesce(p.stage, p.ran, t.stage) AS stage, coalesce(p.seq, -1) AS seq, coalesce(p.attempt, 0) AS attempt,
    coalesce(p.base, 0) AS base, p.context_seq, s.id IS NOT NULL AS held, greatest(b.due, p.due) AS ready
  INTO fact
  FROM rota.task t JOIN rota.batch b ON b.id = t.batch LEFT JOIN rota.queue q ON q.name = b.queue
  LEFT JOIN LATERAL (SELECT * FROM rota.step WHERE step.batch = t.batch AND step.n = t.n ORDER BY step.seq DESC LIMIT 1) p ON true
  LEFT JOIN rota.span s ON s.id = of_span AND s.batch = t.batch AND s.token = hand AND t.n BETWEEN s.lo AND s.hi
  WHERE t.batch = in_batch AND t.n = number;
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
    context, fenced)
  VALUES (in_batch, number, at_seq, hand, -1, coalesce(runs.started, at - (extract(epoch FROM coalesce(ran_for, '0')) * 1000000)::bigint), at,
    CASE WHEN over THEN 1 ELSE 2 END, CASE WHEN over THEN fact.attempt + 1 ELSE 0 END,
    CASE WHEN over THEN -1 WHEN moves THEN at_seq + 1 ELSE fact.base END,
    fact.stage, nullif(next_stage, fact.stage), coalesce(runs.worker, finish.worker),
    CASE WHEN finish.context IS NULL THEN fact.context_seq ELSE at_seq END, CASE WHEN NOT over THEN at + wait END,
    rota.kept(in_batch, number, finish.result), rota.kept(in_batch, number, finish.context), true)
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
  INSERT INTO rota.history_change (body)
  SELECT convert_to(json_build_object('queue', fact.queue, 'stage', fact.stage, 'next', coalesce(next_stage, ''), 'worker', coalesce(p.worker, ''),
    'ready', fact.ready, 'started', p.started, 'at', at)::text, 'UTF8')
  FROM rota.step p WHERE p.batch = in_batch AND p.n = number AND p.seq = at_seq;
  IF current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN '1ms' AND '5s' THEN
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  END IF;
END $$;
