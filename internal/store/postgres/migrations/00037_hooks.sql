-- What other programs call: see docs/hooks.md.
CREATE TABLE rota.hook (
  name   text COLLATE "C" PRIMARY KEY,
  shown  text NOT NULL, -- its configuration, JSON
  secret text NOT NULL  -- what nobody is shown of it, JSON
);
