-- The time within which a task is to be begun, in microseconds after the batch's due time. The column costs nothing where no task of a row has one.
ALTER TABLE rota.pack ADD withins bigint[]; -- 0 = none
ALTER TABLE rota.edit ADD expires bigint;   -- when the task expires unless it is begun; NULL = never
ALTER TABLE rota.stat ADD expired bigint NOT NULL DEFAULT 0;

-- A row for each batch with such tasks says when to look at it: not after the first limit of a task that nobody has begun.
CREATE TABLE rota.expiry (
  batch bigint NOT NULL PRIMARY KEY,
  look  bigint NOT NULL
);
CREATE INDEX expiry_look ON rota.expiry (look, batch);

DROP FUNCTION rota.task(bigint, int);
CREATE FUNCTION rota.task(of_batch bigint, number int)
RETURNS TABLE (batch bigint, n int, stage text, context bytea, key text, group_key text, max_attempts int, timeout bigint, meta text,
  start_within bigint)
LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT p.batch, $2, coalesce(nullif(p.stages[$2 - p.lo + 1], ''), p.stage), p.contexts[$2 - p.lo + 1], nullif(p.keys[$2 - p.lo + 1], ''),
    nullif(p.group_keys[$2 - p.lo + 1], ''), nullif(p.max_attempts[$2 - p.lo + 1], 0), nullif(p.timeouts[$2 - p.lo + 1], 0),
    nullif(p.metas[$2 - p.lo + 1], ''), nullif(p.withins[$2 - p.lo + 1], 0)
  FROM rota.pack p WHERE p.batch = $1 AND p.lo BETWEEN ($2 & -64) AND $2 AND p.has >> ($2 & 63) & 1 = 1 OFFSET 0
$$;

DROP FUNCTION rota.tasks(bigint, int, int);
CREATE FUNCTION rota.tasks(of_batch bigint, low int, high int)
RETURNS TABLE (batch bigint, n int, stage text, context bytea, key text, group_key text, max_attempts int, timeout bigint, meta text,
  start_within bigint)
LANGUAGE sql STABLE ROWS 64 AS $$
  SELECT p.batch, i.n, coalesce(nullif(p.stages[i.n - p.lo + 1], ''), p.stage), p.contexts[i.n - p.lo + 1],
    nullif(p.keys[i.n - p.lo + 1], ''), nullif(p.group_keys[i.n - p.lo + 1], ''), nullif(p.max_attempts[i.n - p.lo + 1], 0),
    nullif(p.timeouts[i.n - p.lo + 1], 0), nullif(p.metas[i.n - p.lo + 1], ''), nullif(p.withins[i.n - p.lo + 1], 0)
  FROM rota.pack p CROSS JOIN LATERAL generate_series(greatest(p.lo, $2), least(p.lo | 63, $3)) i (n)
  WHERE p.batch = $1 AND p.lo BETWEEN ($2 & -64) AND $3 AND p.has >> (i.n & 63) & 1 = 1 OFFSET 0
$$;

CREATE OR REPLACE VIEW rota.tasks AS
  SELECT p.batch, i.n, coalesce(nullif(p.stages[i.n - p.lo + 1], ''), p.stage) AS stage, p.contexts[i.n - p.lo + 1] AS context,
    nullif(p.keys[i.n - p.lo + 1], '') AS key, nullif(p.group_keys[i.n - p.lo + 1], '') AS group_key,
    nullif(p.max_attempts[i.n - p.lo + 1], 0) AS max_attempts, nullif(p.timeouts[i.n - p.lo + 1], 0) AS timeout,
    nullif(p.metas[i.n - p.lo + 1], '')::jsonb AS meta, nullif(p.withins[i.n - p.lo + 1], 0) AS start_within
  FROM rota.pack p CROSS JOIN LATERAL generate_series(p.lo, p.lo | 63) i (n)
  WHERE p.has >> (i.n & 63) & 1 = 1;
