-- +goose Up
-- What seals the tokens of hand-outs: 256 bits, made by the program that first opens the store. secret_since is when that was, in
-- a store in which an earlier version had sealed with something else before; 0 = in none.
ALTER TABLE store ADD COLUMN secret BLOB;
ALTER TABLE store ADD COLUMN secret_since INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE store DROP COLUMN secret_since;
ALTER TABLE store DROP COLUMN secret;
