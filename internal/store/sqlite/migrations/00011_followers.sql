-- +goose Up
-- Who follows whom: a schedule has several parents, which follows names with commas between them.
CREATE TABLE follower (
  leader   TEXT NOT NULL,
  follower TEXT NOT NULL,
  PRIMARY KEY (leader, follower)
) WITHOUT ROWID;
CREATE INDEX follower_leaders ON follower (follower);
INSERT INTO follower (leader, follower) SELECT follows, name FROM schedule WHERE follows IS NOT NULL;

-- The fire with which the run of a fire began; NULL = itself. And the fires of which it is what follows, JSON.
ALTER TABLE fire ADD COLUMN root TEXT;
ALTER TABLE fire ADD COLUMN root_at INTEGER;
ALTER TABLE fire ADD COLUMN parents TEXT;
CREATE INDEX fire_root ON fire (root, root_at) WHERE root IS NOT NULL;
CREATE INDEX fire_joined ON fire (schedule, at) WHERE parents IS NOT NULL;

-- +goose Down
DROP INDEX fire_joined;
DROP INDEX fire_root;
ALTER TABLE fire DROP COLUMN parents;
ALTER TABLE fire DROP COLUMN root_at;
ALTER TABLE fire DROP COLUMN root;
DROP TABLE follower;
