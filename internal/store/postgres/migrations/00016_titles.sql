-- +goose Up
-- What people call a queue, and who answers for it; '' = nothing was said.
ALTER TABLE rota.queue ADD COLUMN title text NOT NULL DEFAULT '', ADD COLUMN owner text NOT NULL DEFAULT '';
