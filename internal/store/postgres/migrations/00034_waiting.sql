-- +goose Up
-- Tasks that wait for signals: see docs/waiting.md. What waits belongs to a free span whose rank and due time are never.
-- linked: bits that say what has to be known of the span's tasks besides their steps (store.Links).
ALTER TABLE rota.span ADD linked smallint NOT NULL DEFAULT 0;
-- What a task waits for, and at which seq the step stands that ends the wait. It goes with that step, or with whatever comes in its place.
CREATE TABLE rota.wait (
  batch     bigint NOT NULL,
  n         int    NOT NULL,
  seq       int    NOT NULL,
  address   text   COLLATE "C" NOT NULL,
  since     bigint NOT NULL,
  until     bigint NOT NULL DEFAULT 0, -- when it is over without a signal; 0 = never
  otherwise text   NOT NULL,           -- the stage in which the task goes on then; '' = the one that waits
  PRIMARY KEY (batch, n)
);
CREATE INDEX wait_address ON rota.wait (address, since, batch, n);
CREATE INDEX wait_until ON rota.wait (until) WHERE until > 0;
ALTER TABLE rota.wait SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- What was sent to an address. One that has ended a wait stays, so that it is known when it is sent again.
CREATE TABLE rota.signal (
  address text   COLLATE "C" NOT NULL,
  key     text   COLLATE "C" NOT NULL, -- tells those to one task apart; '' where the address has no task
  batch   bigint,                      -- the task that it was sent to; NULL = none
  n       int,
  payload bytea,
  sender  text   NOT NULL,
  at      bigint NOT NULL,
  until   bigint NOT NULL,             -- when it goes; 0 = with its task
  used    bigint,                      -- when it ended a wait; NULL = it has not
  PRIMARY KEY (address, key)
);
CREATE INDEX signal_open ON rota.signal (address, at, key) WHERE used IS NULL;
CREATE INDEX signal_task ON rota.signal (batch, n, used) WHERE batch IS NOT NULL;
CREATE INDEX signal_until ON rota.signal (until) WHERE until > 0;
ALTER TABLE rota.signal SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- That something changed at an address, so that somebody has to look. Who looks deletes it; nobody changes it.
CREATE TABLE rota.change (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  address text   COLLATE "C" NOT NULL
);
CREATE INDEX change_address ON rota.change (address);
ALTER TABLE rota.change SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
