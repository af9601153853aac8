-- +goose Up
-- Whether a failed assignment runs as its worker says, and gave no sign for longer than its group allows.
ALTER TABLE rota.assignment ADD COLUMN quiet boolean NOT NULL DEFAULT false;
