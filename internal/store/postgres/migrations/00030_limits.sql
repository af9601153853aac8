-- +goose Up
-- Limits of a queue: tasks that run at a time, 0 = any number; tasks that begin within a time (nanoseconds), 0 = any.
ALTER TABLE rota.queue
  ADD max_running bigint NOT NULL DEFAULT 0,
  ADD rate_count  bigint NOT NULL DEFAULT 0,
  ADD rate_per    bigint NOT NULL DEFAULT 0,
  ADD burst       bigint NOT NULL DEFAULT 0;
ALTER TABLE rota.running ADD queue text NOT NULL DEFAULT '';
UPDATE rota.running u SET queue = b.queue FROM rota.batch b WHERE b.id = u.batch;
CREATE INDEX running_queue ON rota.running (queue);
-- What a queue with limits has left of its rate: a row for each such queue. Whoever lets its tasks
-- begin has it for himself.
CREATE TABLE rota.gate (
  queue text   PRIMARY KEY,
  level bigint NOT NULL,
  at    bigint NOT NULL
);
-- Short hand-outs come and go here by the thousand, and are counted.
ALTER TABLE rota.running SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
