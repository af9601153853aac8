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

-- Nodes of the version before take and hand out nothing any more, since they would not see that tasks are done: their memberships end here, as
-- when they had been silent for a lease, and they get no new ones. As a rule they open the store again then, are refused, and end.
ALTER TABLE rota.lease ADD COLUMN marks boolean NOT NULL DEFAULT false; -- whether its holder knows marks
UPDATE rota.lease l SET until = m.until FROM rota.lease m
WHERE m.name LIKE 'node/%' AND m.until > 0 AND l.until = 9223372036854775807 AND l.holder = m.holder;
UPDATE rota.lease SET token = token + 1, until = 0 WHERE name LIKE 'node/%';
ALTER TABLE rota.lease ADD CONSTRAINT lease_knows_marks CHECK (marks OR until = 0 OR name NOT LIKE 'node/%');
