-- One row, locked before everything else by those who make, change or delete schedules and calendars: they wait for one another.
CREATE TABLE rota.schedule_head (
  one   smallint PRIMARY KEY CHECK (one = 1),
  ids   bigint NOT NULL,                  -- the greatest id of any schedule that ever was
  past  bigint NOT NULL,                  -- the greatest version of any schedule that is gone
  count bigint NOT NULL                   -- of schedules
);
INSERT INTO rota.schedule_head (one, ids, past, count) VALUES (1, 0, 0, 0);

CREATE TABLE rota.calendar (
  name text COLLATE "C" PRIMARY KEY,
  days text NOT NULL                      -- JSON
);

-- Who moves the cursor, or writes fires, locks the row first.
CREATE TABLE rota.schedule (
  id       bigint NOT NULL UNIQUE,        -- never used twice: what is left of a deleted schedule is nobody's
  version  bigint NOT NULL,
  since    bigint NOT NULL,
  first    bigint NOT NULL,
  next     bigint NOT NULL,               -- the cursor
  created  bigint NOT NULL,
  name     text COLLATE "C" PRIMARY KEY,
  calendar text   NOT NULL,               -- as in spec; '' = none
  follows  text   NOT NULL,               -- another schedule; '' = none
  spec     text   NOT NULL                -- JSON
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX schedule_due ON rota.schedule (next, name) WHERE next < 9223372036854775807;
CREATE INDEX schedule_calendar ON rota.schedule (calendar) WHERE calendar <> '';
CREATE INDEX schedule_follows ON rota.schedule (follows) WHERE follows <> '';

-- The ids of schedules that were deleted and left something.
CREATE TABLE rota.schedule_remains (schedule bigint PRIMARY KEY);

CREATE TABLE rota.era (
  schedule bigint NOT NULL,
  version  bigint NOT NULL,
  since    bigint NOT NULL,
  first    bigint NOT NULL,
  until    bigint NOT NULL,               -- due times after this are the next version's
  spec     text   NOT NULL,
  days     text,                          -- of its calendar; NULL = it had none
  PRIMARY KEY (schedule, version)
);
CREATE INDEX era_over ON rota.era (until);

CREATE TABLE rota.fire (
  schedule bigint   NOT NULL,
  at       bigint   NOT NULL,
  time     bigint   NOT NULL,
  batch    bigint,                        -- of the task; NULL = there is none
  through  bigint,                        -- of a row that stands for several due times; NULL = at
  count    bigint   NOT NULL,
  n        int,
  room     int      NOT NULL,             -- of a queued one: it is fired when fewer are open
  seq      int      NOT NULL,
  tries    int      NOT NULL,
  ended    smallint NOT NULL,
  watch    boolean  NOT NULL,
  open     boolean  NOT NULL GENERATED ALWAYS AS (outcome = 'queued' OR watch AND ended = 0) STORED,
  origin   text     NOT NULL,
  outcome  text     NOT NULL,
  node     text     NOT NULL,
  reason   text,
  PRIMARY KEY (schedule, at)
);
CREATE INDEX fire_fired ON rota.fire (schedule, at) WHERE outcome = 'fired';
CREATE INDEX fire_shared ON rota.fire (schedule, through) WHERE through IS NOT NULL;
CREATE INDEX fire_open ON rota.fire (schedule, at) WHERE open;
CREATE INDEX fire_over ON rota.fire (time) WHERE NOT open;
CREATE INDEX fire_watched ON rota.fire (batch, n) WHERE watch;
