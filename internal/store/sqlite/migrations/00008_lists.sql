-- +goose Up
CREATE INDEX event_time ON event (time);

-- +goose Down
DROP INDEX event_time;
