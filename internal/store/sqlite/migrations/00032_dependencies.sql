-- +goose Up
-- What tasks wait for that wait for other tasks, or have waited: see docs/waiting.md. Rows go with the one that waits.
CREATE TABLE dependency (
  batch    INTEGER NOT NULL, -- who waits
  n        INTEGER NOT NULL,
  i        INTEGER NOT NULL, -- their order
  on_batch INTEGER NOT NULL, -- for what
  on_n     INTEGER NOT NULL,
  ref      TEXT    NOT NULL, -- what the submission called it; '' = by its id
  ended    INTEGER NOT NULL, -- 1 = any end fits; 0 = it has to be done
  state    TEXT,             -- in which it ended, as a look has seen it; NULL = open
  seq      INTEGER,          -- of the step with which it did; -1 = it was gone
  PRIMARY KEY (batch, n, i)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_on ON dependency (on_batch, on_n, batch, n);
-- What nobody has looked at yet: asked of whatever ends.
CREATE INDEX dependency_open ON dependency (on_batch, on_n, batch, n) WHERE state IS NULL;
