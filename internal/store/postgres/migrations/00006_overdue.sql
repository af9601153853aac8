-- What is past its limit is found by it, whoever holds its span.
CREATE INDEX running_until ON rota.running (until, batch, n, seq);
