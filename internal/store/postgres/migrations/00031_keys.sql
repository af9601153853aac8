-- +goose Up
-- Limits of each key (a task's group_key) by itself, as those of the queue; and whether keys take turns.
ALTER TABLE rota.queue
  ADD key_running    bigint  NOT NULL DEFAULT 0,
  ADD key_rate_count bigint  NOT NULL DEFAULT 0,
  ADD key_rate_per   bigint  NOT NULL DEFAULT 0,
  ADD key_burst      bigint  NOT NULL DEFAULT 0,
  ADD fair           boolean NOT NULL DEFAULT false;
-- The key of all tasks of the span; NULL = nobody has looked. Only spans of queues that go by keys have one: those are found
-- by their keys, all others by their ranks.
ALTER TABLE rota.span ADD key text COLLATE "C";
DROP INDEX rota.span_ready;
CREATE INDEX span_ready ON rota.span (queue, rank, id) WHERE holder IS NULL AND key IS NULL;
CREATE INDEX span_key ON rota.span (queue, key, rank, id) WHERE holder IS NULL AND key IS NOT NULL;
CREATE INDEX span_sorted ON rota.span (queue, rank, id) WHERE holder IS NULL AND key IS NOT NULL;
ALTER TABLE rota.running ADD key text COLLATE "C" NOT NULL DEFAULT '';
DROP INDEX rota.running_queue;
CREATE INDEX running_queue ON rota.running (queue, key);
-- since: when the rate of each key was set; a key without a bucket has had an empty one since then.
ALTER TABLE rota.gate ADD since bigint NOT NULL DEFAULT 0;
-- What a key has left of its rate. A bucket that is full again needs no row.
CREATE TABLE rota.bucket (
  queue   text   NOT NULL,
  key     text   COLLATE "C" NOT NULL,
  level   bigint NOT NULL,
  at      bigint NOT NULL,
  full_at bigint NOT NULL, -- when it is full again
  PRIMARY KEY (queue, key)
);
CREATE INDEX bucket_full ON rota.bucket (queue, full_at);
ALTER TABLE rota.bucket SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
