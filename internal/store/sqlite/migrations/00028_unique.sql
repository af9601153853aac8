-- +goose Up
-- The task that got a unique key last. Whether it still has the key follows from how it stands (package rules), so nothing that becomes of the task
-- changes the row; it goes with the task, when its time is over, or when another task gets the key.
CREATE TABLE unique_key (
  queue   TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  batch   INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  waiting INTEGER NOT NULL, -- until its first hand-out; 0 = until it is final
  until   INTEGER,          -- at the latest, microseconds since 1970; NULL = whenever that is
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_key_task ON unique_key (batch, n);
CREATE INDEX unique_key_until ON unique_key (until) WHERE until IS NOT NULL;

-- Which tasks of a batch were not inserted because others had their unique keys, and what became of them; NULL = none.
ALTER TABLE batch ADD COLUMN existing BLOB;
