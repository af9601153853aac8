-- What seals the tokens of hand-outs: 256 bits, made by the database, as those of peers. Until secret_since, microseconds since 1970,
-- nodes of an earlier version may hand out with other seals: an hour is given to update them. 0 = there never was one.
ALTER TABLE rota.store ADD COLUMN secret bytea NOT NULL
  DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));
ALTER TABLE rota.store ADD COLUMN secret_since bigint NOT NULL DEFAULT 0;
UPDATE rota.store SET secret_since = (extract(epoch FROM now()) * 1000000)::bigint + 3600000000;
