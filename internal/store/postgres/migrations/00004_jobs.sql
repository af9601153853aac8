-- One row, locked by those who make or delete groups or change seats, after everything else that they lock.
CREATE TABLE rota.job_head (
  one   smallint PRIMARY KEY CHECK (one = 1),
  ids   bigint NOT NULL,                  -- the greatest id of any group that ever was
  past  bigint NOT NULL,                  -- the greatest version of any group that is gone
  seats bigint NOT NULL                   -- the version of all seats: grows with every change, used left aside
);
INSERT INTO rota.job_head (one, ids, past, seats) VALUES (1, 0, 0, 0);

-- Who changes a group, its jobs or its assignments locks the row first: versions are in the order of commits.
CREATE TABLE rota.job_group (
  name      text COLLATE "C" PRIMARY KEY,
  id        bigint NOT NULL UNIQUE,       -- never used twice: what is left of a deleted group is nobody's
  config    text   NOT NULL,              -- JSON
  read      text   NOT NULL,              -- what came of reading its source last, JSON; '' = nothing yet
  refresh   bigint NOT NULL,
  rebalance bigint NOT NULL,
  since     bigint NOT NULL,
  version   bigint NOT NULL,
  horizon   bigint NOT NULL,              -- who has read less far reads everything
  jobs      bigint NOT NULL               -- that are not gone
) WITH (fillfactor = 50);

-- The ids of groups that were deleted and left something.
CREATE TABLE rota.job_remains (grp bigint PRIMARY KEY);

CREATE TABLE rota.job (
  grp     bigint NOT NULL,
  job     text COLLATE "C" NOT NULL,
  load    bigint NOT NULL,                -- in thousandths
  spec    bytea,                          -- as it came
  gone    bigint NOT NULL,                -- when it was removed; 0 = it stands
  version bigint NOT NULL,
  PRIMARY KEY (grp, job)
);
CREATE INDEX job_changed ON rota.job (grp, version);
CREATE INDEX job_gone ON rota.job (gone) WHERE gone > 0;

CREATE TABLE rota.assignment (
  grp     bigint NOT NULL,
  job     text COLLATE "C" NOT NULL,
  worker  text COLLATE "C" NOT NULL,      -- in the key: no two replicas of a job on one worker
  replica bigint NOT NULL,
  token   bigint NOT NULL,
  state   text   NOT NULL,
  load    bigint NOT NULL,
  since   bigint NOT NULL,
  failed  bigint NOT NULL,
  note    text   NOT NULL,
  version bigint NOT NULL,
  PRIMARY KEY (grp, job, worker)
);
CREATE INDEX assignment_changed ON rota.assignment (grp, version);
CREATE INDEX assignment_ended ON rota.assignment (since) WHERE state = 'ended';
CREATE INDEX assignment_worker ON rota.assignment (worker) WHERE state <> 'ended';

CREATE TABLE rota.seat (
  worker      text COLLATE "C" PRIMARY KEY,
  node        text   NOT NULL,            -- '' of an orphan
  htok        bigint NOT NULL,
  incarnation text   NOT NULL,
  capacity    bigint NOT NULL,
  used        bigint NOT NULL,            -- by assignments that are not ended; who assigns locks the row
  state       text   NOT NULL,
  since       bigint NOT NULL,
  joined      bigint NOT NULL,
  traits      text   NOT NULL             -- JSON
) WITH (fillfactor = 50);

CREATE TABLE rota.job_log (
  grp    bigint NOT NULL,
  job    text COLLATE "C" NOT NULL,
  line   bigint NOT NULL,
  time   bigint NOT NULL,
  stream text   NOT NULL,
  text   bytea  NOT NULL,
  PRIMARY KEY (grp, job, line)
);

CREATE TABLE rota.job_log_size (          -- columns as of log_size
  grp           bigint NOT NULL,
  job           text COLLATE "C" NOT NULL,
  next          bigint NOT NULL,
  head          bigint NOT NULL,
  tail          bigint NOT NULL,
  cut           bigint NOT NULL,
  dropped       bigint NOT NULL,
  dropped_bytes bigint NOT NULL,
  PRIMARY KEY (grp, job)
);
