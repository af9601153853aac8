-- +goose Up
CREATE TABLE job_head (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  ids   INTEGER NOT NULL,                 -- the greatest id of any group that ever was
  past  INTEGER NOT NULL,                 -- the greatest version of any group that is gone
  seats INTEGER NOT NULL                  -- the version of all seats: grows with every change, used left aside
);
INSERT INTO job_head (one, ids, past, seats) VALUES (1, 0, 0, 0);

CREATE TABLE job_group (
  name      TEXT    PRIMARY KEY,
  id        INTEGER NOT NULL UNIQUE,      -- never used twice: what is left of a deleted group is nobody's
  config    TEXT    NOT NULL,             -- JSON
  read      TEXT,                         -- what came of reading its source last, JSON
  refresh   INTEGER NOT NULL,
  rebalance INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  version   INTEGER NOT NULL,
  horizon   INTEGER NOT NULL,             -- who has read less far reads everything
  jobs      INTEGER NOT NULL              -- that are not gone
) WITHOUT ROWID;

-- The group's id of those that were deleted and left something.
CREATE TABLE job_remains (grp INTEGER PRIMARY KEY);

CREATE TABLE job (
  grp     INTEGER NOT NULL,
  job     TEXT    NOT NULL,
  load    INTEGER NOT NULL,               -- in thousandths
  spec    BLOB,
  gone    INTEGER NOT NULL,               -- when it was removed; 0 = it stands
  version INTEGER NOT NULL,
  PRIMARY KEY (grp, job)
) WITHOUT ROWID;
CREATE INDEX job_changed ON job (grp, version);
CREATE INDEX job_gone ON job (gone) WHERE gone > 0;

CREATE TABLE assignment (
  grp     INTEGER NOT NULL,
  job     TEXT    NOT NULL,
  worker  TEXT    NOT NULL,               -- in the key: no two replicas of a job on one worker
  replica INTEGER NOT NULL,
  token   INTEGER NOT NULL,
  state   TEXT    NOT NULL,
  load    INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  failed  INTEGER NOT NULL,
  note    TEXT    NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (grp, job, worker)
) WITHOUT ROWID;
CREATE INDEX assignment_changed ON assignment (grp, version);
CREATE INDEX assignment_ended ON assignment (since) WHERE state = 'ended';
CREATE INDEX assignment_worker ON assignment (worker) WHERE state <> 'ended';

CREATE TABLE seat (
  worker      TEXT    PRIMARY KEY,
  node        TEXT    NOT NULL,           -- '' of an orphan
  htok        INTEGER NOT NULL,
  incarnation TEXT    NOT NULL,
  capacity    INTEGER NOT NULL,
  used        INTEGER NOT NULL,           -- by assignments that are not ended; guarded by all who assign
  state       TEXT    NOT NULL,
  since       INTEGER NOT NULL,
  joined      INTEGER NOT NULL,
  traits      TEXT    NOT NULL            -- JSON
) WITHOUT ROWID;
CREATE INDEX seat_taken ON seat (node, htok) WHERE state = 'taken';
CREATE INDEX seat_vacant ON seat (since) WHERE state <> 'taken';

CREATE TABLE job_log (
  grp    INTEGER NOT NULL,
  job    TEXT    NOT NULL,
  line   INTEGER NOT NULL,
  time   INTEGER NOT NULL,
  stream TEXT    NOT NULL,
  text   TEXT    NOT NULL,
  PRIMARY KEY (grp, job, line)
) WITHOUT ROWID;

CREATE TABLE job_log_size (               -- columns as of log_size
  grp           INTEGER NOT NULL,
  job           TEXT    NOT NULL,
  next          INTEGER NOT NULL,
  head          INTEGER NOT NULL,
  tail          INTEGER NOT NULL,
  cut           INTEGER NOT NULL,
  dropped       INTEGER NOT NULL,
  dropped_bytes INTEGER NOT NULL,
  PRIMARY KEY (grp, job)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE job_log_size;
DROP TABLE job_log;
DROP TABLE seat;
DROP TABLE assignment;
DROP TABLE job;
DROP TABLE job_remains;
DROP TABLE job_group;
DROP TABLE job_head;
