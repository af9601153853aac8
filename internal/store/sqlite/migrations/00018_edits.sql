-- +goose Up
-- What edits have made of tasks, beside their steps (kind 14). A row is whole: what its edit left
-- alone it has from before, so the newest of a task holds in place of what was submitted.
CREATE TABLE edit (
  batch        INTEGER NOT NULL,
  n            INTEGER NOT NULL,
  seq          INTEGER NOT NULL,      -- of the step
  changed      INTEGER NOT NULL,      -- bits: see store.EditedFields
  over         INTEGER,               -- the step whose context it replaced, -1 = the task's own;
                                      -- NULL = none
  head_start   INTEGER NOT NULL,      -- the priority, microseconds
  group_key    TEXT,
  max_attempts INTEGER NOT NULL,      -- 0 = the queue's
  PRIMARY KEY (batch, n, seq)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE edit;
