-- +goose Up
-- Whether a failed assignment runs as its worker says, and gave no sign for longer than its group allows.
ALTER TABLE assignment ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE assignment DROP COLUMN quiet;
