-- +goose Up
-- What queues did by the minute, since minutes that are over are added up to one row of stat for each queue, so that counting reads few.
-- Minutes come in the key's order, so each is written to few pages. Nothing that is counted depends on it.
CREATE TABLE stat_minute (
  minute    INTEGER NOT NULL,
  queue     TEXT    NOT NULL,
  submitted INTEGER NOT NULL,
  done      INTEGER NOT NULL,
  dead      INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  runs      INTEGER NOT NULL,
  retried   INTEGER NOT NULL,
  lost      INTEGER NOT NULL,
  PRIMARY KEY (minute, queue)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE stat_minute;
