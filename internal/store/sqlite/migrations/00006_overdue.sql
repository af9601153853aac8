-- +goose Up
-- What is past its limit is found by it, whoever holds its span.
CREATE INDEX running_until ON running (until, batch, n, seq);

-- +goose Down
DROP INDEX running_until;
