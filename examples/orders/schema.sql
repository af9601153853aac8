CREATE TABLE IF NOT EXISTS stock (
	item   text PRIMARY KEY,
	pieces bigint NOT NULL CHECK (pieces >= 0)
);
CREATE TABLE IF NOT EXISTS orders (
	id       text PRIMARY KEY, -- chosen by the customer's program, so that it may ask again
	seq      bigint GENERATED ALWAYS AS IDENTITY,
	customer text NOT NULL,
	item     text NOT NULL REFERENCES stock,
	cents    bigint NOT NULL,
	state    text NOT NULL DEFAULT 'placed', -- then paid, packed, sent; or refused
	open     boolean NOT NULL GENERATED ALWAYS AS (state NOT IN ('sent', 'refused')) STORED,
	report   text -- the task that has counted it
);
CREATE INDEX IF NOT EXISTS orders_open ON orders (customer, seq) WHERE open;
CREATE TABLE IF NOT EXISTS reports (
	id     text PRIMARY KEY,
	made   timestamptz NOT NULL DEFAULT now(),
	orders bigint NOT NULL,
	cents  bigint NOT NULL
);
