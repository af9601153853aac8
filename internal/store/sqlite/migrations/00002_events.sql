-- +goose Up
CREATE TABLE event (
  seq     INTEGER PRIMARY KEY,
  time    INTEGER NOT NULL,
  key     TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  subject TEXT    NOT NULL,
  text    TEXT    NOT NULL,
  fields  TEXT                            -- a JSON object of strings
);
CREATE UNIQUE INDEX event_key ON event (key);

CREATE TABLE event_head (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  last INTEGER NOT NULL,                  -- the greatest seq that was ever given
  time INTEGER NOT NULL                   -- of that event: no later one is before it
);
INSERT INTO event_head (one, last, time) VALUES (1, 0, 0);

CREATE TABLE notifier (
  name      TEXT    PRIMARY KEY,
  shown     TEXT    NOT NULL,             -- its configuration, JSON
  secret    TEXT    NOT NULL,             -- what nobody is shown of it, JSON
  delivered INTEGER NOT NULL,             -- seq up to which it was served
  failing   INTEGER NOT NULL,             -- since when it can't be; 0 = it can
  told      INTEGER NOT NULL,             -- whether there is an event that says so
  trouble   TEXT    NOT NULL              -- why, for people
) WITHOUT ROWID;

-- +goose Down
DROP TABLE notifier;
DROP TABLE event_head;
DROP TABLE event;
