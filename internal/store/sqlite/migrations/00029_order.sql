-- +goose Up
-- Whether a dead task stops its key, in a queue whose keys go in order (key_running = 1).
ALTER TABLE queue ADD COLUMN key_stop INTEGER NOT NULL DEFAULT 0;
-- The task of a key that was let begin last, in such a queue. No other one of the key begins until it is over, which follows from how it stands:
-- nothing that becomes of the task changes the row. It goes with the task, or when another task of the key begins.
CREATE TABLE key_owner (
  queue TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  batch INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_owner_task ON key_owner (batch, n);
-- What comes first of a key, whoever holds it.
CREATE INDEX span_order ON span (queue, key, rank, batch, lo) WHERE key IS NOT NULL;
