-- +goose Up
CREATE TABLE schedule_head (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  ids  INTEGER NOT NULL,                  -- the greatest id of any schedule that ever was
  past INTEGER NOT NULL                   -- the greatest version of any schedule that is gone
);
INSERT INTO schedule_head (one, ids, past) VALUES (1, 0, 0);

-- What may be long stands last in its row: nobody who wants the rest reads past it.
CREATE TABLE schedule (
  id      INTEGER PRIMARY KEY,            -- never used twice: what is left of a deleted schedule is nobody's
  name    TEXT    NOT NULL UNIQUE,
  follows TEXT,                           -- the schedule that it follows, also in spec
  days    INTEGER,                        -- of its calendar; NULL = all
  version INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  first   INTEGER NOT NULL,
  next    INTEGER NOT NULL,               -- the cursor
  created INTEGER NOT NULL,
  last    INTEGER NOT NULL,               -- the newest due time that was fired; 0 = none
  spec    TEXT    NOT NULL                -- JSON
);
CREATE INDEX schedule_next ON schedule (next, name);
CREATE INDEX schedule_follows ON schedule (follows) WHERE follows IS NOT NULL;
CREATE INDEX schedule_days ON schedule (days) WHERE days IS NOT NULL;

-- The id of those that were deleted and left something.
CREATE TABLE schedule_remains (schedule INTEGER PRIMARY KEY);

CREATE TABLE era (
  schedule INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  days     INTEGER,                       -- columns as of schedule
  since    INTEGER NOT NULL,
  first    INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  spec     TEXT    NOT NULL,
  PRIMARY KEY (schedule, version)
);
CREATE INDEX era_until ON era (until);
CREATE INDEX era_days ON era (days) WHERE days IS NOT NULL;

-- A calendar that is replaced keeps its row as long as an era has it.
CREATE TABLE calendar (
  id     INTEGER PRIMARY KEY,
  name   TEXT    NOT NULL,
  stands INTEGER NOT NULL,
  days   TEXT    NOT NULL                 -- JSON
);
CREATE UNIQUE INDEX calendar_stands ON calendar (name) WHERE stands;

CREATE TABLE fire (
  schedule INTEGER NOT NULL,
  at       INTEGER NOT NULL,              -- in the key: no due time is handled twice
  through  INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  origin   TEXT    NOT NULL,
  outcome  TEXT    NOT NULL,
  reason   TEXT    NOT NULL,
  batch    INTEGER,                       -- its task; NULL = none
  n        INTEGER,
  node     TEXT    NOT NULL,
  time     INTEGER NOT NULL,
  slots    INTEGER NOT NULL,              -- Limit
  watch    INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  tries    INTEGER NOT NULL,
  open     TEXT,                          -- the schedule's name as long as something is to come of it, then NULL
  PRIMARY KEY (schedule, at)
) WITHOUT ROWID;
CREATE INDEX fire_open ON fire (open, at) WHERE open IS NOT NULL;
CREATE INDEX fire_closed ON fire (time) WHERE open IS NULL;
CREATE INDEX fire_task ON fire (batch, n) WHERE watch;
CREATE INDEX fire_run ON fire (schedule, through) WHERE count > 1;

-- +goose Down
DROP TABLE fire;
DROP TABLE calendar;
DROP TABLE era;
DROP TABLE schedule_remains;
DROP TABLE schedule;
DROP TABLE schedule_head;
