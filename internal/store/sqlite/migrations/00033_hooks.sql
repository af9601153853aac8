-- +goose Up
-- What other programs call: see docs/hooks.md.
CREATE TABLE hook (
  name   TEXT PRIMARY KEY,
  shown  TEXT NOT NULL, -- its configuration, JSON
  secret TEXT NOT NULL  -- what nobody is shown of it, JSON
) STRICT, WITHOUT ROWID;
