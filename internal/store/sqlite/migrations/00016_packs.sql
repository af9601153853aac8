-- +goose Up
-- The tasks of a batch, up to 64 in a row, and how they ended: see package pack, which also says
-- what a body is. The next version moves the rows of task here.
CREATE TABLE pack (
  batch INTEGER NOT NULL,
  lo    INTEGER NOT NULL,             -- its first task; it ends before the next multiple of 64
  has   INTEGER NOT NULL,             -- bit n & 63: n is a task
  body  BLOB    NOT NULL,             -- of those tasks
  PRIMARY KEY (batch, lo)
) STRICT, WITHOUT ROWID;

CREATE TABLE keyed (                  -- tasks with a key, also those whose key is forgotten
  key   TEXT    NOT NULL,
  batch INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (key, batch, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE mark (                   -- outcomes of first hand-outs that have no step of their own
  batch INTEGER NOT NULL,
  lo    INTEGER NOT NULL,             -- a multiple of 64
  bits  INTEGER NOT NULL,             -- bit n & 63: n is done, as body says
  body  BLOB    NOT NULL,
  PRIMARY KEY (batch, lo)
) STRICT, WITHOUT ROWID;

DROP INDEX task_by_key;
ALTER TABLE task RENAME TO task_unpacked;
