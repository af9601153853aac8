-- What a new file has. A test makes this page of the migrations, where changes begin. What a
-- migration added to a table stands behind its last column, before that one's comment.

CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE store (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  identity TEXT    NOT NULL,              -- of this database; PATH.lock carries it too
  tokens   INTEGER NOT NULL DEFAULT 0,    -- the greatest token of any removed lease
  spans    INTEGER NOT NULL DEFAULT 0     -- no span with a greater id was ever made
, commits INTEGER NOT NULL DEFAULT 0, emptied INTEGER NOT NULL DEFAULT 0, secret BLOB, secret_since INTEGER NOT NULL DEFAULT 0);

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
, final_queue TEXT NOT NULL DEFAULT '', title TEXT NOT NULL DEFAULT '', owner TEXT NOT NULL DEFAULT '', max_running INTEGER NOT NULL DEFAULT 0, rate_count INTEGER NOT NULL DEFAULT 0, rate_per INTEGER NOT NULL DEFAULT 0, burst INTEGER NOT NULL DEFAULT 0, key_running INTEGER NOT NULL DEFAULT 0, key_rate_count INTEGER NOT NULL DEFAULT 0, key_rate_per INTEGER NOT NULL DEFAULT 0, key_burst INTEGER NOT NULL DEFAULT 0, fair INTEGER NOT NULL DEFAULT 0, key_stop INTEGER NOT NULL DEFAULT 0, key_rules INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;

CREATE TABLE batch (
  id      INTEGER PRIMARY KEY,
  queue   TEXT    NOT NULL,
  rank    INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  created INTEGER NOT NULL,
  origin  TEXT    NOT NULL,
  span    INTEGER NOT NULL,               -- id of its first span; those of one batch are consecutive
  granted INTEGER NOT NULL                -- whether its submitter's lease was good, so that it got the spans it wanted to hold
, existing BLOB);

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
, key TEXT, linked INTEGER NOT NULL DEFAULT 0);

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
  until       INTEGER NOT NULL, queue TEXT NOT NULL DEFAULT '', key TEXT NOT NULL DEFAULT '',
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
  lost      INTEGER NOT NULL, expired INTEGER NOT NULL DEFAULT 0,
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

CREATE TABLE notifier (
  name      TEXT    PRIMARY KEY,
  shown     TEXT    NOT NULL,             -- its configuration, JSON
  secret    TEXT    NOT NULL,             -- what nobody is shown of it, JSON
  delivered INTEGER NOT NULL,             -- seq up to which it was served
  failing   INTEGER NOT NULL,             -- since when it can't be; 0 = it can
  told      INTEGER NOT NULL,             -- whether there is an event that says so
  trouble   TEXT    NOT NULL              -- why, for people
) WITHOUT ROWID;

CREATE TABLE job_head (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  ids   INTEGER NOT NULL,                 -- the greatest id of any group that ever was
  past  INTEGER NOT NULL,                 -- the greatest version of any group that is gone
  seats INTEGER NOT NULL                  -- the version of all seats: grows with every change, used left aside
);

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
  version INTEGER NOT NULL, quiet INTEGER NOT NULL DEFAULT 0,
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

CREATE TABLE schedule_head (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  ids  INTEGER NOT NULL,                  -- the greatest id of any schedule that ever was
  past INTEGER NOT NULL                   -- the greatest version of any schedule that is gone
);

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
  open     TEXT, root TEXT, root_at INTEGER, parents TEXT,                          -- the schedule's name as long as something is to come of it, then NULL
  PRIMARY KEY (schedule, at)
) WITHOUT ROWID;

CREATE INDEX fire_open ON fire (open, at) WHERE open IS NOT NULL;

CREATE INDEX fire_closed ON fire (time) WHERE open IS NULL;

CREATE INDEX fire_task ON fire (batch, n) WHERE watch;

CREATE INDEX fire_run ON fire (schedule, through) WHERE count > 1;

CREATE INDEX running_until ON running (until, batch, n, seq);

CREATE INDEX event_time ON event (time);

CREATE TABLE follower (
  leader   TEXT NOT NULL,
  follower TEXT NOT NULL,
  PRIMARY KEY (leader, follower)
) WITHOUT ROWID;

CREATE INDEX follower_leaders ON follower (follower);

CREATE INDEX fire_root ON fire (root, root_at) WHERE root IS NOT NULL;

CREATE INDEX fire_joined ON fire (schedule, at) WHERE parents IS NOT NULL;

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

CREATE TABLE keyed (                  -- tasks with a key, also those whose key is forgotten
  key   TEXT    NOT NULL,
  batch INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (key, batch, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE edit (
  batch        INTEGER NOT NULL,
  n            INTEGER NOT NULL,
  seq          INTEGER NOT NULL,      -- of the step
  changed      INTEGER NOT NULL,      -- bits: see store.EditedFields
  over         INTEGER,               -- the step whose context it replaced, -1 = the task's own;
                                      -- NULL = none
  head_start   INTEGER NOT NULL,      -- the priority, microseconds
  group_key    TEXT,
  max_attempts INTEGER NOT NULL, expires INTEGER, meta TEXT,      -- 0 = the queue's
  PRIMARY KEY (batch, n, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE expiry (
  batch INTEGER NOT NULL PRIMARY KEY,
  look  INTEGER NOT NULL              -- microseconds since 1970
) STRICT, WITHOUT ROWID;

CREATE INDEX expiry_look ON expiry (look, batch);

CREATE TABLE gate (
  queue TEXT    PRIMARY KEY,
  level INTEGER NOT NULL,
  at    INTEGER NOT NULL
, since INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;

CREATE INDEX span_ready ON span (queue, rank, id, due) WHERE holder IS NULL AND key IS NULL;

CREATE INDEX span_key ON span (queue, key, rank, id, due) WHERE holder IS NULL AND key IS NOT NULL;

CREATE INDEX span_sorted ON span (queue, rank, id, due) WHERE holder IS NULL AND key IS NOT NULL;

CREATE INDEX running_queue ON running (queue, key);

CREATE TABLE bucket (
  queue TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  level INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  full_at INTEGER NOT NULL,               -- when it is full again
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;

CREATE INDEX bucket_full ON bucket (queue, full_at);

CREATE TABLE unique_key (
  queue   TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  batch   INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  waiting INTEGER NOT NULL, -- until its first hand-out; 0 = until it is final
  until   INTEGER,          -- at the latest, microseconds since 1970; NULL = whenever that is
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX unique_key_task ON unique_key (batch, n);

CREATE INDEX unique_key_until ON unique_key (until) WHERE until IS NOT NULL;

CREATE TABLE key_owner (
  queue TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  batch INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_owner_task ON key_owner (batch, n);

CREATE INDEX span_order ON span (queue, key, rank, batch, lo) WHERE key IS NOT NULL;

CREATE TABLE wait (
  batch     INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  address   TEXT    NOT NULL,
  since     INTEGER NOT NULL,
  until     INTEGER NOT NULL, -- when it is over without a signal; 0 = never
  otherwise TEXT    NOT NULL, first INTEGER NOT NULL DEFAULT 0, -- the stage that follows then; '' = the one that waits
  PRIMARY KEY (batch, n)
) STRICT, WITHOUT ROWID;

CREATE INDEX wait_address ON wait (address, since);

CREATE INDEX wait_until ON wait (until) WHERE until > 0;

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

CREATE TABLE change (
  id      INTEGER PRIMARY KEY,
  address TEXT NOT NULL
) STRICT;

CREATE INDEX change_address ON change (address);

CREATE TABLE child_batch (
  batch        INTEGER PRIMARY KEY,
  parent_batch INTEGER NOT NULL,
  parent_n     INTEGER NOT NULL,
  run          INTEGER NOT NULL, -- of the parent: the seq behind its newest replay, 0 without one
  seq          INTEGER NOT NULL, -- of the hand-out whose outcome submitted them; -1 = they were added while it ran
  orphan       INTEGER NOT NULL  -- 1 = they stay when their parent ends badly
) STRICT;

CREATE INDEX child_parent ON child_batch (parent_batch, parent_n, batch);

CREATE TABLE child_count (
  batch     INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  run       INTEGER NOT NULL,
  total     INTEGER NOT NULL,
  done      INTEGER NOT NULL,
  dead      INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  expired   INTEGER NOT NULL,
  PRIMARY KEY (batch, n, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE dependency (
  batch    INTEGER NOT NULL, -- who waits
  n        INTEGER NOT NULL,
  i        INTEGER NOT NULL, -- their order
  on_batch INTEGER NOT NULL, -- for what
  on_n     INTEGER NOT NULL,
  ref      TEXT    NOT NULL, -- what the submission called it; '' = by its id
  ended    INTEGER NOT NULL, -- 1 = any end fits; 0 = it has to be done
  state    TEXT,             -- in which it ended, as a look has seen it; NULL = open
  seq      INTEGER,          -- of the step with which it did; -1 = it was gone
  PRIMARY KEY (batch, n, i)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependency_on ON dependency (on_batch, on_n, batch, n);

CREATE INDEX dependency_open ON dependency (on_batch, on_n, batch, n) WHERE state IS NULL;

CREATE TABLE hook (
  name   TEXT PRIMARY KEY,
  shown  TEXT NOT NULL, -- its configuration, JSON
  secret TEXT NOT NULL  -- what nobody is shown of it, JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE key_rule (
  queue  TEXT    NOT NULL,
  key    TEXT    NOT NULL,
  paused INTEGER NOT NULL, -- until when nothing of the key begins; 0 = it is not paused, 2^63-1 = until it is resumed
  weight INTEGER NOT NULL, -- tasks of a turn; 0 = nothing is said
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_rule_over ON key_rule (paused, queue, key) WHERE weight = 0;

CREATE INDEX key_rule_stands ON key_rule (queue) WHERE weight > 0 OR paused = 9223372036854775807;

CREATE TABLE pack (
  batch INTEGER NOT NULL,
  lo    INTEGER NOT NULL,             -- its first task; it ends before the next multiple of 64
  has   INTEGER NOT NULL,             -- bit n & 63: n is a task
  body  BLOB    NOT NULL,             -- of those tasks
  PRIMARY KEY (batch, lo)
) STRICT;

CREATE TABLE mark (                   -- outcomes of first hand-outs that have no step of their own
  batch INTEGER NOT NULL,
  lo    INTEGER NOT NULL,             -- a multiple of 64
  bits  INTEGER NOT NULL,             -- bit n & 63: n is done, as body says
  body  BLOB    NOT NULL,
  PRIMARY KEY (batch, lo)
) STRICT;

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES
(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 3, 1), (5, 4, 1), (6, 5, 1), (7, 6, 1), (8, 7, 1), (9, 8, 1), (10, 9, 1), (11, 10, 1), (12, 11, 1), (13, 12, 1), (14, 14, 1), (15, 15, 1), (16, 16, 1), (17, 17, 1), (18, 18, 1), (19, 20, 1), (20, 22, 1), (21, 24, 1), (22, 26, 1), (23, 27, 1), (24, 28, 1), (25, 29, 1), (26, 30, 1), (27, 31, 1), (28, 32, 1), (29, 33, 1), (30, 34, 1), (31, 35, 1), (32, 36, 1);
INSERT INTO event_head (one, last, time) VALUES
(1, 0, 0);
INSERT INTO job_head (one, ids, past, seats) VALUES
(1, 0, 0, 0);
INSERT INTO schedule_head (one, ids, past) VALUES
(1, 0, 0);
