-- What nodes of this store know each other by: 256 bits, made by the database, so that an older program that makes the row needs
-- to know nothing of them.
ALTER TABLE rota.store ADD COLUMN peers bytea NOT NULL
  DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));
