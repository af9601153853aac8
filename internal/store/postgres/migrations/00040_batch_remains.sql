-- +goose Up
-- Batches whose partition is gone, where tasks that went with it may have left rows in tables that are not partitioned. Whoever has deleted those
-- deletes the row.
CREATE TABLE rota.batch_remains (
  first  bigint PRIMARY KEY, -- the first batch
  beyond bigint NOT NULL     -- the first batch after them
);
