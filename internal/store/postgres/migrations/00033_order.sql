-- +goose Up
-- Whether a dead task stops its key, in a queue whose keys go in order (key_running = 1).
ALTER TABLE rota.queue ADD key_stop boolean NOT NULL DEFAULT false;
-- The task of a key that was let begin last, in such a queue. No other one of the key begins until it is over, which follows from how it stands:
-- nothing that becomes of the task changes the row. It goes with the task, or when another task of the key begins.
CREATE TABLE rota.key_owner (
  queue text   NOT NULL,
  key   text   COLLATE "C" NOT NULL,
  batch bigint NOT NULL,
  n     int    NOT NULL,
  PRIMARY KEY (queue, key)
);
CREATE INDEX key_owner_task ON rota.key_owner (batch, n);
ALTER TABLE rota.key_owner SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- What comes first of a key, whoever holds it.
CREATE INDEX span_order ON rota.span (queue, key, rank, batch, lo, id) WHERE key IS NOT NULL;
