-- +goose Up
-- The queue that gets a notice of each task that dies; '' = none.
ALTER TABLE queue ADD COLUMN final_queue TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE queue DROP COLUMN final_queue;
