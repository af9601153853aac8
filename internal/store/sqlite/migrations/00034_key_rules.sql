-- +goose Up
-- What people and handlers have said of single group keys: see docs/limits.md. A row goes when it says nothing any more.
CREATE TABLE key_rule (
  queue  TEXT    NOT NULL,
  key    TEXT    NOT NULL,
  paused INTEGER NOT NULL, -- until when nothing of the key begins; 0 = it is not paused, 2^63-1 = until it is resumed
  weight INTEGER NOT NULL, -- tasks of a turn; 0 = nothing is said
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
-- Pauses that end by themselves, and their rows with them.
CREATE INDEX key_rule_over ON key_rule (paused, queue, key) WHERE weight = 0;
-- Those that stay until somebody takes them back: a queue may have only so many.
CREATE INDEX key_rule_stands ON key_rule (queue) WHERE weight > 0 OR paused = 9223372036854775807;
-- Whether any key of the queue has a row.
ALTER TABLE queue ADD COLUMN key_rules INTEGER NOT NULL DEFAULT 0;
