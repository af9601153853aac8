-- +goose Up
-- What people and handlers have said of single group keys: see docs/limits.md. A row goes when it says nothing any more. Whoever writes some, or
-- deletes those of pauses that are over, has the queue's row for himself.
CREATE TABLE rota.key_rule (
  queue  text   COLLATE "C" NOT NULL,
  key    text   COLLATE "C" NOT NULL,
  paused bigint NOT NULL, -- until when nothing of the key begins; 0 = it is not paused, 2^63-1 = until it is resumed
  weight int    NOT NULL, -- tasks of a turn; 0 = nothing is said
  PRIMARY KEY (queue, key)
);
-- Pauses that end by themselves, and their rows with them.
CREATE INDEX key_rule_over ON rota.key_rule (paused, queue, key) WHERE weight = 0;
-- Those that stay until somebody takes them back: a queue may have only so many.
CREATE INDEX key_rule_stands ON rota.key_rule (queue) WHERE weight > 0 OR paused = 9223372036854775807;
-- Reports pause keys by the thousand, and each pause ends.
ALTER TABLE rota.key_rule SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Whether any key of the queue has a row. Such a queue has a row of gate, too, as one with limits does.
ALTER TABLE rota.queue ADD key_rules boolean NOT NULL DEFAULT false;
