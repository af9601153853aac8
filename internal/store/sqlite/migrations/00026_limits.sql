-- +goose Up
-- Limits of a queue: tasks that run at a time, 0 = any number; tasks that begin within a time (nanoseconds), 0 = any.
ALTER TABLE queue ADD COLUMN max_running INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN rate_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN rate_per INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE running ADD COLUMN queue TEXT NOT NULL DEFAULT '';
UPDATE running SET queue = coalesce((SELECT queue FROM batch WHERE id = running.batch), '');
CREATE INDEX running_queue ON running (queue);
-- What a queue with limits has left of its rate: a row for each such queue.
CREATE TABLE gate (
  queue TEXT    PRIMARY KEY,
  level INTEGER NOT NULL,
  at    INTEGER NOT NULL
) WITHOUT ROWID;
