-- +goose Up
CREATE TABLE store (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  identity TEXT    NOT NULL,              -- of this database; PATH.lock carries it too
  tokens   INTEGER NOT NULL DEFAULT 0,    -- the greatest token of any removed lease
  spans    INTEGER NOT NULL DEFAULT 0     -- no span with a greater id was ever made
);

CREATE TABLE queue (
  name          TEXT    PRIMARY KEY,
  timeout       INTEGER NOT NULL,
  silence       INTEGER NOT NULL,
  max_attempts  INTEGER NOT NULL,
  retry_initial INTEGER NOT NULL,
  retry_max     INTEGER NOT NULL,
  retry_factor  REAL    NOT NULL,
  retry_jitter  REAL    NOT NULL,
  hold_limit    INTEGER NOT NULL,
  poll_interval INTEGER NOT NULL,
  context_limit INTEGER NOT NULL,
  retention     INTEGER NOT NULL,
  dead_kept     INTEGER NOT NULL,
  paused        INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE batch (
  id      INTEGER PRIMARY KEY,
  queue   TEXT    NOT NULL,
  rank    INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  created INTEGER NOT NULL,
  origin  TEXT    NOT NULL,
  span    INTEGER NOT NULL,               -- id of its first span; those of one batch are consecutive
  granted INTEGER NOT NULL                -- whether its submitter's lease was good, so that it got the spans it wanted to hold
);

CREATE TABLE task (
  batch        INTEGER NOT NULL,
  n            INTEGER NOT NULL,
  stage        TEXT    NOT NULL,
  context      BLOB,
  key          TEXT,
  group_key    TEXT,
  max_attempts INTEGER,
  timeout      INTEGER,
  PRIMARY KEY (batch, n)
) WITHOUT ROWID;
CREATE INDEX task_by_key ON task (key) WHERE key IS NOT NULL;

CREATE TABLE step (
  batch       INTEGER NOT NULL,
  n           INTEGER NOT NULL,
  seq         INTEGER NOT NULL,
  token       INTEGER NOT NULL,           -- of the span at the hand-out; -1 = asked for, so no report repeats it
  kind        INTEGER NOT NULL,
  ran         TEXT    NOT NULL,
  stage       TEXT    NOT NULL,
  attempt     INTEGER NOT NULL,
  base        INTEGER NOT NULL,           -- seq0 of the task's span from here on; -1 = final
  started     INTEGER NOT NULL,
  finished    INTEGER NOT NULL,
  hash        INTEGER NOT NULL,
  context_seq INTEGER NOT NULL,           -- the step in which the context from here on stands; -1 = the task
  due         INTEGER NOT NULL,
  worker      TEXT,
  error       TEXT,
  result      BLOB,
  context     BLOB,
  PRIMARY KEY (batch, n, seq)
) WITHOUT ROWID;
CREATE INDEX step_not_done ON step (batch, n) WHERE base = -1 AND kind <> 1;

CREATE TABLE span (
  id     INTEGER PRIMARY KEY,             -- never used twice: an old token would be good again
  batch  INTEGER NOT NULL,
  lo     INTEGER NOT NULL,
  hi     INTEGER NOT NULL,
  seq0   INTEGER NOT NULL,
  queue  TEXT    NOT NULL,
  rank   INTEGER NOT NULL,
  due    INTEGER NOT NULL,
  holder TEXT,
  htok   INTEGER NOT NULL,
  token  INTEGER NOT NULL,
  deaths INTEGER NOT NULL,
  size   INTEGER NOT NULL,                -- its tasks; exact as long as nobody ever held it (token 0)
  gaps   INTEGER NOT NULL                 -- whether some numbers of lo..hi may be no tasks
);
CREATE INDEX span_ready ON span (queue, rank, id, due) WHERE holder IS NULL;
CREATE INDEX span_due   ON span (queue, due, token, size) WHERE holder IS NULL;
CREATE INDEX span_freed ON span (queue) WHERE holder IS NULL AND token > 0;
CREATE INDEX span_held  ON span (holder, htok) WHERE holder IS NOT NULL;
CREATE INDEX span_batch ON span (batch, seq0, lo);

CREATE TABLE running (
  batch       INTEGER NOT NULL,
  n           INTEGER NOT NULL,
  seq         INTEGER NOT NULL,
  span        INTEGER NOT NULL,
  token       INTEGER NOT NULL,
  worker      TEXT    NOT NULL,
  incarnation TEXT    NOT NULL,
  started     INTEGER NOT NULL,
  until       INTEGER NOT NULL,
  PRIMARY KEY (batch, n, seq)
) WITHOUT ROWID;

CREATE TABLE lease (
  name   TEXT    PRIMARY KEY,
  holder TEXT    NOT NULL,
  token  INTEGER NOT NULL,
  until  INTEGER NOT NULL,                -- 0 = ended
  value  BLOB
) WITHOUT ROWID;

CREATE TABLE task_key (
  queue TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  batch INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX task_key_until ON task_key (until);

CREATE TABLE stat (
  queue     TEXT    NOT NULL,
  minute    INTEGER NOT NULL,             -- since 1970; 0 = all that is older, and deletions
  submitted INTEGER NOT NULL,
  done      INTEGER NOT NULL,
  dead      INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  runs      INTEGER NOT NULL,
  retried   INTEGER NOT NULL,
  lost      INTEGER NOT NULL,
  PRIMARY KEY (queue, minute)
) WITHOUT ROWID;

CREATE TABLE blob (
  batch INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  name  TEXT    NOT NULL,
  PRIMARY KEY (batch, n, name)
) WITHOUT ROWID;
CREATE INDEX blob_name ON blob (name);

CREATE TABLE log (
  batch  INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  line   INTEGER NOT NULL,                -- from 0; the numbers of dropped lines stay unused
  time   INTEGER NOT NULL,
  stream TEXT    NOT NULL,
  text   TEXT    NOT NULL,
  PRIMARY KEY (batch, n, line)
) WITHOUT ROWID;

CREATE TABLE log_size (
  batch         INTEGER NOT NULL,
  n             INTEGER NOT NULL,
  next          INTEGER NOT NULL,         -- the number of the next line
  head          INTEGER NOT NULL,         -- bytes of the lines that are kept for good
  tail          INTEGER NOT NULL,         -- bytes of the lines after them
  cut           INTEGER NOT NULL,         -- the first line that does not belong to the head, -1 = none yet
  dropped       INTEGER NOT NULL,         -- lines from cut on that are gone
  dropped_bytes INTEGER NOT NULL,
  PRIMARY KEY (batch, n)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE log_size;
DROP TABLE log;
DROP TABLE blob;
DROP TABLE stat;
DROP TABLE task_key;
DROP TABLE lease;
DROP TABLE running;
DROP TABLE span;
DROP TABLE step;
DROP TABLE task;
DROP TABLE batch;
DROP TABLE queue;
DROP TABLE store;
