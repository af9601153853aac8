-- +goose Up
-- Packs and marks get row numbers. Their rows are long, and without row numbers a search compares
-- whole rows, with all that flows over into other pages. The next version moves the rows.
ALTER TABLE pack RENAME TO pack_by_key;
CREATE TABLE pack (
  batch INTEGER NOT NULL,
  lo    INTEGER NOT NULL,             -- its first task; it ends before the next multiple of 64
  has   INTEGER NOT NULL,             -- bit n & 63: n is a task
  body  BLOB    NOT NULL,             -- of those tasks
  PRIMARY KEY (batch, lo)
) STRICT;

ALTER TABLE mark RENAME TO mark_by_key;
CREATE TABLE mark (                   -- outcomes of first hand-outs that have no step of their own
  batch INTEGER NOT NULL,
  lo    INTEGER NOT NULL,             -- a multiple of 64
  bits  INTEGER NOT NULL,             -- bit n & 63: n is done, as body says
  body  BLOB    NOT NULL,
  PRIMARY KEY (batch, lo)
) STRICT;
