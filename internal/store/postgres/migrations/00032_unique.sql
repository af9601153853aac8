-- +goose Up
-- The task that got a unique key last. Whether it still has the key follows from how it stands (package rules), so nothing that becomes of the task
-- changes the row; it goes with the task, when its time is over, or when another task gets the key. Who wants the key has the row for himself, and
-- whoever lets the task begin shares it.
CREATE TABLE rota.unique_key (
  queue   text    NOT NULL,
  key     text    NOT NULL,
  batch   bigint  NOT NULL,
  n       int     NOT NULL,
  waiting boolean NOT NULL, -- until its first hand-out; otherwise until it is final
  until   bigint,           -- at the latest, microseconds since 1970; NULL = whenever that is
  PRIMARY KEY (queue, key)
);
CREATE INDEX unique_key_task ON rota.unique_key (batch, n);
CREATE INDEX unique_key_until ON rota.unique_key (until) WHERE until IS NOT NULL;

-- Which tasks of a batch were not inserted because others had their unique keys, and what became of them; NULL = none.
ALTER TABLE rota.batch ADD existing bytea;
