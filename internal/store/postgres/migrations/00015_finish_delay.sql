-- finish takes the delay with which the stage that follows begins. The function is made anew, as a further argument makes it another one;
-- who was allowed to call the one before may call it, and calls without the argument mean what they meant.
SELECT set_config('rota.finish_rights', coalesce(string_agg(
  a.grantee::regrole::text || CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END, ';'), ''), true)
FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
WHERE p.oid = 'rota.finish(text, text, json, text, json, text, interval)'::regprocedure AND a.grantee NOT IN (0, p.proowner);
DROP FUNCTION rota.finish(text, text, json, text, json, text, interval);

-- finish records, in the transaction that calls it, that a hand-out is done, with a result; or, with next_stage, that its stage is and which
-- follows, at once or after a delay. A context is what the task has from here on; NULL keeps the present one. It counts when the
-- transaction commits, and never was when it does not. Afterwards the worker reports the same outcome with "committed": true.
--
-- task and token are the hand-out's; worker is the name it was handed to, ran_for how long the handler worked. It raises RT002, which
-- spoils the transaction, when the hand-out is no longer the caller's, and 22023 when an argument makes no sense.
--
-- From here on the transaction may idle for 5 s: until it ends, whoever wants to record another outcome of this hand-out (lost, timeout,
-- cancelled) waits for it.
--
-- It runs with the rights of its owner, who sees the secret that seals tokens: whom the owner grants EXECUTE can finish what was handed to
-- him, and nothing else.
CREATE FUNCTION rota.finish(
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
  SELECT b.queue, b.due - b.rank AS head_start, coalesce(q.context_limit, 16777216) AS context_limit,
    coalesce(p.stage, p.ran, t.stage) AS stage, coalesce(p.seq, -1) AS seq, coalesce(p.attempt, 0) AS attempt,
    coalesce(p.base, 0) AS base, p.context_seq, s.id IS NOT NULL AS held
  INTO fact
  FROM rota.task t JOIN rota.batch b ON b.id = t.batch LEFT JOIN rota.queue q ON q.name = b.queue
  LEFT JOIN LATERAL (SELECT * FROM rota.step WHERE step.batch = t.batch AND step.n = t.n ORDER BY step.seq DESC LIMIT 1) p ON true
  LEFT JOIN rota.span s ON s.id = of_span AND s.batch = t.batch AND s.token = hand AND t.n BETWEEN s.lo AND s.hi
  WHERE t.batch = in_batch AND t.n = number;
  SELECT u.span, u.token, u.worker, u.started INTO runs
  FROM rota.running u WHERE u.batch = in_batch AND u.n = number AND u.seq = at_seq;
  IF fact.queue IS NULL THEN
    RAISE 'finish: there is no such task' USING ERRCODE = 'RT002';
  ELSIF fact.base = -1 OR fact.seq + 1 <> at_seq
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
  VALUES (fact.queue, at / 60000000, 0, over::int, 0, 0, 1, 0, 0);
  IF current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN '1ms' AND '5s' THEN
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  END IF;
END $$;
REVOKE ALL ON FUNCTION rota.finish FROM PUBLIC;
DO $$
DECLARE
  whom text;
BEGIN
  FOREACH whom IN ARRAY string_to_array(current_setting('rota.finish_rights'), ';') LOOP
    EXECUTE 'GRANT EXECUTE ON FUNCTION rota.finish TO ' || whom;
  END LOOP;
END $$;
