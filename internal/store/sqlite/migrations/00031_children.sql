-- +goose Up
-- Tasks that other tasks have submitted while they ran: see docs/waiting.md. Whose children the tasks of a batch are; a batch has one parent or none.
CREATE TABLE child_batch (
  batch        INTEGER PRIMARY KEY,
  parent_batch INTEGER NOT NULL,
  parent_n     INTEGER NOT NULL,
  run          INTEGER NOT NULL, -- of the parent: the seq behind its newest replay, 0 without one
  seq          INTEGER NOT NULL, -- of the hand-out whose outcome submitted them; -1 = they were added while it ran
  orphan       INTEGER NOT NULL  -- 1 = they stay when their parent ends badly
) STRICT;
CREATE INDEX child_parent ON child_batch (parent_batch, parent_n, batch);
-- How the children of one run of a task stand.
CREATE TABLE child_count (
  batch     INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  run       INTEGER NOT NULL,
  total     INTEGER NOT NULL,
  done      INTEGER NOT NULL,
  dead      INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  expired   INTEGER NOT NULL,
  PRIMARY KEY (batch, n, run)
) STRICT, WITHOUT ROWID;
-- 1 = the first child that is dead or expired ends the wait, too.
ALTER TABLE wait ADD COLUMN first INTEGER NOT NULL DEFAULT 0;
