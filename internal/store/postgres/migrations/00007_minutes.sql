-- What queues did by the minute. The rows of stat are added up to one for each queue, so that counting reads few; what they said of a
-- minute goes here first. Minutes come in the key's order, so each is written to few pages. Nothing that is counted depends on it.
CREATE TABLE rota.stat_minute (
  minute    bigint NOT NULL,
  queue     text   NOT NULL,
  submitted bigint NOT NULL,
  done      bigint NOT NULL,
  dead      bigint NOT NULL,
  cancelled bigint NOT NULL,
  runs      bigint NOT NULL,
  retried   bigint NOT NULL,
  lost      bigint NOT NULL,
  PRIMARY KEY (minute, queue)
);
-- Rows of stat live for a minute.
ALTER TABLE rota.stat SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
