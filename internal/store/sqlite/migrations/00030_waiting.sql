-- +goose Up
-- What is to be known of the tasks of a span besides their steps: 1 = a step tells what woke them.
ALTER TABLE span ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;
-- What a blocked task waits for: it belongs to a span that nobody takes. The step at seq ends the wait.
CREATE TABLE wait (
  batch     INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  address   TEXT    NOT NULL,
  since     INTEGER NOT NULL,
  until     INTEGER NOT NULL, -- when it is over without a signal; 0 = never
  otherwise TEXT    NOT NULL, -- the stage that follows then; '' = the one that waits
  PRIMARY KEY (batch, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX wait_address ON wait (address, since);
CREATE INDEX wait_until ON wait (until) WHERE until > 0;
-- What was sent: each ends one wait at most.
CREATE TABLE signal (
  address TEXT    NOT NULL,
  key     TEXT    NOT NULL, -- tells those of one address apart
  batch   INTEGER,          -- the task to which it was sent; NULL = none, the address has a key
  n       INTEGER,
  payload BLOB,
  sender  TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  until   INTEGER NOT NULL, -- how long it stands; 0 = as long as its task
  used    INTEGER,          -- when it ended a wait; NULL = it has not
  PRIMARY KEY (address, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX signal_open ON signal (address, at) WHERE used IS NULL;
CREATE INDEX signal_task ON signal (batch, n) WHERE batch IS NOT NULL;
CREATE INDEX signal_until ON signal (until) WHERE until > 0;
-- Addresses at which somebody has to look whether a wait is over.
CREATE TABLE change (
  id      INTEGER PRIMARY KEY,
  address TEXT NOT NULL
) STRICT;
CREATE INDEX change_address ON change (address);
