-- +goose Up
-- What people call a queue, and who answers for it; '' = nothing was said.
ALTER TABLE queue ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE queue ADD COLUMN owner TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE queue DROP COLUMN owner;
ALTER TABLE queue DROP COLUMN title;
