-- +goose Up
-- A schedule may follow several others: follows names them, with commas between them, so that a node
-- of before reads and writes those that follow one, by the index that there is.
CREATE INDEX schedule_parents ON rota.schedule USING gin (string_to_array(follows, ','))
  WITH (fastupdate = off) WHERE follows <> '';

-- The fire with which the run of a fire began; NULL = itself. And the fires of which it is what
-- follows, JSON.
ALTER TABLE rota.fire ADD COLUMN root text COLLATE "C", ADD COLUMN root_at bigint, ADD COLUMN parents text;
CREATE INDEX fire_root ON rota.fire (root, root_at) WHERE root IS NOT NULL;
CREATE INDEX fire_joined ON rota.fire (schedule, at) WHERE parents IS NOT NULL;
