-- +goose Up
-- What queues, stages and workers did, by the minute and by the hour: see package history, which
-- also says what a body is. Each transaction adds what it changed to history_change; every few
-- seconds that is added to the rows of history.
CREATE TABLE history_change (
  id   INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE history (
  minutes INTEGER NOT NULL,           -- how long a row is: 1 or 60
  at      INTEGER NOT NULL,           -- since 1970, in units of minutes
  worker  TEXT    NOT NULL,           -- '' = of a queue
  queue   TEXT    NOT NULL,           -- '' = of a worker, or of the whole store
  stage   TEXT    NOT NULL,           -- '' = of all stages
  body    BLOB    NOT NULL,
  PRIMARY KEY (minutes, at, worker, queue, stage)
) STRICT, WITHOUT ROWID;

-- It had taken the place of the rows of stat by the minute, and nothing read it.
DROP TABLE stat_minute;

-- stat keeps one row for each queue from here on.
CREATE TEMPORARY TABLE stat_sum AS
SELECT queue, sum(submitted) AS submitted, sum(done) AS done, sum(dead) AS dead,
  sum(cancelled) AS cancelled, sum(runs) AS runs, sum(retried) AS retried, sum(lost) AS lost
FROM stat GROUP BY queue;
DELETE FROM stat;
INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
SELECT queue, 0, submitted, done, dead, cancelled, runs, retried, lost FROM stat_sum;
DROP TABLE stat_sum;

-- +goose Down
DROP TABLE history;
DROP TABLE history_change;
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
