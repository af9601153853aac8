CREATE TABLE rota.event (
  seq     bigint PRIMARY KEY,
  time    bigint NOT NULL,
  key     text   NOT NULL UNIQUE,
  kind    text   NOT NULL,
  subject text   NOT NULL,
  text    text   NOT NULL,
  fields  text                            -- a JSON object of strings
);

-- Who appends locks the row: seqs are in the order of commits and have no gap.
CREATE TABLE rota.event_head (
  one  smallint PRIMARY KEY CHECK (one = 1),
  last bigint   NOT NULL,                 -- the greatest seq that was ever given
  time bigint   NOT NULL                  -- of that event: no later one is before it
);
INSERT INTO rota.event_head (one, last, time) VALUES (1, 0, 0);

CREATE TABLE rota.notifier (
  name      text COLLATE "C" PRIMARY KEY,
  shown     text    NOT NULL,             -- its configuration, JSON
  secret    text    NOT NULL,             -- what nobody is shown of it, JSON
  delivered bigint  NOT NULL,             -- seq up to which it was served
  failing   bigint  NOT NULL,             -- since when it can't be; 0 = it can
  told      boolean NOT NULL,             -- whether there is an event that says so
  trouble   text    NOT NULL              -- why, for people
);
