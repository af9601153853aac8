-- +goose Up
-- What a task carries since an edit changed it, as a JSON object: '' = nothing. NULL: as it was submitted.
ALTER TABLE edit ADD COLUMN meta TEXT;
