-- +goose Up
-- Limits of each key (a task's group_key) by itself, as those of the queue; and whether keys take turns.
ALTER TABLE queue ADD COLUMN key_running INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN key_rate_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN key_rate_per INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN key_burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN fair INTEGER NOT NULL DEFAULT 0;
-- The key of all tasks of the span; NULL = nobody has looked. Only spans of queues that go by keys have one: those are found
-- by their keys, all others by their ranks.
ALTER TABLE span ADD COLUMN key TEXT;
DROP INDEX span_ready;
CREATE INDEX span_ready ON span (queue, rank, id, due) WHERE holder IS NULL AND key IS NULL;
CREATE INDEX span_key ON span (queue, key, rank, id, due) WHERE holder IS NULL AND key IS NOT NULL;
CREATE INDEX span_sorted ON span (queue, rank, id, due) WHERE holder IS NULL AND key IS NOT NULL;
ALTER TABLE running ADD COLUMN key TEXT NOT NULL DEFAULT '';
DROP INDEX running_queue;
CREATE INDEX running_queue ON running (queue, key);
-- since: when the rate of each key was set; a key without a bucket has had an empty one since then.
ALTER TABLE gate ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
-- What a key has left of its rate. A bucket that is full again needs no row.
CREATE TABLE bucket (
  queue TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  level INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  full_at INTEGER NOT NULL,               -- when it is full again
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX bucket_full ON bucket (queue, full_at);
