CREATE INDEX event_time ON rota.event (time, seq);

-- In the order of lists: of many tasks with one key a page reads as many as it shows.
CREATE INDEX task_with_key ON rota.task (key, batch, n) WHERE key IS NOT NULL;
DROP INDEX rota.task_by_key;
