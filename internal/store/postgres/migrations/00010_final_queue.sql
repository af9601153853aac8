-- +goose Up
-- The queue that gets a notice of each task that dies; '' = none.
ALTER TABLE rota.queue ADD COLUMN final_queue text NOT NULL DEFAULT '';
