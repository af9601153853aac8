-- +goose Up
-- A row that was written down without asking for its key has none until somebody counts by keys. Those that are there may be
-- of tasks with keys, too.
ALTER TABLE rota.running ALTER key DROP NOT NULL, ALTER key DROP DEFAULT;
UPDATE rota.running SET key = NULL WHERE key = '';
