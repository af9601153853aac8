-- +goose Up
-- How the log is told from one that is lost: see wal.go.
ALTER TABLE store ADD COLUMN commits INTEGER NOT NULL DEFAULT 0; -- transactions that were ever committed
ALTER TABLE store ADD COLUMN emptied INTEGER NOT NULL DEFAULT 0; -- commits when the log was last emptied into the file

-- +goose Down
ALTER TABLE store DROP COLUMN emptied;
ALTER TABLE store DROP COLUMN commits;
