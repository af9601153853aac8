-- +goose Up
-- Bodies of packs may say within which time a task is to be begun, from here on (package pack). A
-- row for each batch with such tasks says when to look at it: not after the first limit of a task
-- that nobody has begun.
CREATE TABLE expiry (
  batch INTEGER NOT NULL PRIMARY KEY,
  look  INTEGER NOT NULL              -- microseconds since 1970
) STRICT, WITHOUT ROWID;
CREATE INDEX expiry_look ON expiry (look, batch);

ALTER TABLE edit ADD COLUMN expires INTEGER; -- the limit of the task; NULL = none
ALTER TABLE stat ADD COLUMN expired INTEGER NOT NULL DEFAULT 0;
