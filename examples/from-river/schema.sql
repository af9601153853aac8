CREATE TABLE IF NOT EXISTS invoices (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	customer text NOT NULL,
	cents    bigint NOT NULL,
	mailed   timestamptz
);
