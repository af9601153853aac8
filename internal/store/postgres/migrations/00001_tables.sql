-- Times are microseconds since 1970 UTC. Statements name everything by its schema, "rota" here; another one takes its place when the
-- store is configured so.

CREATE TABLE rota.store (
  one      smallint PRIMARY KEY CHECK (one = 1),
  identity text     NOT NULL,             -- of this store
  tokens   bigint   NOT NULL DEFAULT 0    -- the greatest token of any removed lease
);

-- Span ids are handed out by the block: a span's id is never used twice, because an old token would be good again.
CREATE SEQUENCE rota.span_block;

-- The store's clock: the database's, or the time that a test gives.
CREATE FUNCTION rota.micros(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;

-- Ends a transaction that did not write as many rows as it should.
CREATE FUNCTION rota.expect(wrote bigint, want bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF wrote <> want THEN
    RAISE 'wrote % rows of %', wrote, want USING ERRCODE = 'RT001';
  END IF;
  RETURN wrote;
END $$;

CREATE TABLE rota.queue (
  name          text COLLATE "C" PRIMARY KEY,
  timeout       bigint  NOT NULL,         -- durations in nanoseconds
  silence       bigint  NOT NULL,
  max_attempts  bigint  NOT NULL,
  retry_initial bigint  NOT NULL,
  retry_max     bigint  NOT NULL,
  retry_factor  float8  NOT NULL,
  retry_jitter  float8  NOT NULL,
  hold_limit    bigint  NOT NULL,
  poll_interval bigint  NOT NULL,
  context_limit bigint  NOT NULL,
  retention     bigint  NOT NULL,
  dead_kept     bigint  NOT NULL,
  paused        boolean NOT NULL
);

-- batch, task and step are partitioned by batch id, which is time-ordered: see partition.go.
CREATE TABLE rota.batch (
  id      bigint  NOT NULL,
  rank    bigint  NOT NULL,
  due     bigint  NOT NULL,
  created bigint  NOT NULL,
  span    bigint  NOT NULL,               -- id of its first span; those of one batch are consecutive
  granted boolean NOT NULL,               -- whether its submitter's lease was good, so that it got the spans it wanted to hold
  queue   text    NOT NULL,
  origin  text    NOT NULL,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);

CREATE TABLE rota.task (
  batch        bigint NOT NULL,
  n            int    NOT NULL,
  max_attempts int,
  timeout      bigint,
  stage        text   NOT NULL,
  key          text,
  group_key    text,
  context      bytea,
  PRIMARY KEY (batch, n)
) PARTITION BY RANGE (batch);
CREATE INDEX task_by_key ON rota.task (key) WHERE key IS NOT NULL;

CREATE TABLE rota.step (
  batch       bigint   NOT NULL,
  token       bigint   NOT NULL,          -- of the span at the hand-out; -1 = asked for, so no report repeats it
  hash        bigint   NOT NULL,
  started     bigint   NOT NULL,
  finished    bigint   NOT NULL,
  n           int      NOT NULL,
  seq         int      NOT NULL,
  attempt     int      NOT NULL,
  base        int      NOT NULL,          -- seq0 of the task's span from here on; -1 = final
  kind        smallint NOT NULL,
  ran         text     NOT NULL,
  stage       text,                       -- NULL = the one that ran
  worker      text,
  context_seq int,                        -- the step in which the context from here on stands; NULL = the task
  due         bigint,                     -- NULL = at once
  error       text,
  result      bytea,
  context     bytea,
  PRIMARY KEY (batch, n, seq)
) PARTITION BY RANGE (batch);
CREATE INDEX step_not_done ON rota.step (batch, n) WHERE base = -1 AND kind <> 1;

CREATE TABLE rota.span (
  id     bigint  PRIMARY KEY,
  batch  bigint  NOT NULL,
  rank   bigint  NOT NULL,
  due    bigint  NOT NULL,
  htok   bigint  NOT NULL,
  token  bigint  NOT NULL,
  lo     int     NOT NULL,
  hi     int     NOT NULL,
  seq0   int     NOT NULL,
  deaths int     NOT NULL,
  size   int     NOT NULL,                -- its tasks; exact as long as nobody ever held it (token 0)
  gaps   boolean NOT NULL,                -- whether some numbers of lo..hi may be no tasks
  queue  text    NOT NULL,
  holder text
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX span_ready ON rota.span (queue, rank, id) WHERE holder IS NULL;
CREATE INDEX span_ahead ON rota.span (queue, due) WHERE holder IS NULL AND rank <> due; -- those with a priority: rank does not tell when they are due
CREATE INDEX span_freed ON rota.span (queue) WHERE holder IS NULL AND token > 0;
CREATE INDEX span_held  ON rota.span (holder, htok) WHERE holder IS NOT NULL;
CREATE INDEX span_batch ON rota.span (batch, seq0, lo);

CREATE TABLE rota.running (
  batch       bigint NOT NULL,
  n           int    NOT NULL,
  seq         int    NOT NULL,
  span        bigint NOT NULL,
  token       bigint NOT NULL,
  started     bigint NOT NULL,
  until       bigint NOT NULL,
  worker      text   NOT NULL,
  incarnation text   NOT NULL,
  PRIMARY KEY (batch, n, seq)
);

CREATE TABLE rota.lease (
  name   text COLLATE "C" PRIMARY KEY,
  holder text   NOT NULL,
  token  bigint NOT NULL,
  until  bigint NOT NULL,                 -- 0 = ended
  value  bytea,
  UNIQUE (name, token)                    -- so that ending a lease waits for who shares it, and renewing does not
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE rota.task_key (
  queue text   NOT NULL,
  key   text   NOT NULL,
  batch bigint NOT NULL,
  n     int    NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (queue, key)
);
CREATE INDEX task_key_until ON rota.task_key (until);

-- Differences, one row for each transaction and queue, so that transactions never wait for one another; added up from time to time.
CREATE TABLE rota.stat (
  queue     text   NOT NULL,
  minute    bigint NOT NULL,              -- since 1970; 0 = all that is older, and deletions
  submitted bigint NOT NULL,
  done      bigint NOT NULL,
  dead      bigint NOT NULL,
  cancelled bigint NOT NULL,
  runs      bigint NOT NULL,
  retried   bigint NOT NULL,
  lost      bigint NOT NULL
);
CREATE INDEX stat_queue ON rota.stat (queue, minute);

CREATE TABLE rota.blob (
  batch bigint NOT NULL,
  n     int    NOT NULL,
  name  text   NOT NULL,
  PRIMARY KEY (batch, n, name)
);
CREATE INDEX blob_name ON rota.blob (name);

-- Large values, when no folder is configured that all nodes share.
CREATE TABLE rota.large (
  name text COLLATE "C" PRIMARY KEY,
  text bytea NOT NULL
);
ALTER TABLE rota.large ALTER text SET STORAGE EXTERNAL;

CREATE TABLE rota.log (
  batch  bigint NOT NULL,
  n      int    NOT NULL,
  line   bigint NOT NULL,                 -- from 0; the numbers of dropped lines stay unused
  time   bigint NOT NULL,
  stream text   NOT NULL,
  text   bytea  NOT NULL,                 -- as it came: programs write what they like
  PRIMARY KEY (batch, n, line)
);

CREATE TABLE rota.log_size (
  batch         bigint NOT NULL,
  n             int    NOT NULL,
  next          bigint NOT NULL,          -- the number of the next line
  head          bigint NOT NULL,          -- bytes of the lines that are kept for good
  tail          bigint NOT NULL,          -- bytes of the lines after them
  cut           bigint NOT NULL,          -- the first line that does not belong to the head, -1 = none yet
  dropped       bigint NOT NULL,          -- lines from cut on that are gone
  dropped_bytes bigint NOT NULL,
  PRIMARY KEY (batch, n)
);
