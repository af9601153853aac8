package lease

import (
	"context"
	"time"
)

// Store keeps leases. Each call is one transaction, and names come sorted. An error means: perhaps.
// Keepers repeat what they want, never what they asked.
//
// In SQL, with now() the database's clock, a table lease (name PRIMARY KEY, holder, token, until,
// value), and until = 0 for what was ended:
//
//	Acquire  INSERT INTO lease … ON CONFLICT (name) DO UPDATE SET holder = $holder, token = lease.token + 1, until = now() + $ttl, value = …
//	         WHERE lease.until = 0 OR now() <= $judge AND (lease.until <= now() OR lease.holder = $holder) RETURNING …
//	Renew    UPDATE lease SET until = now() + $ttl, value = coalesce(…, value) FROM … WHERE name = … AND token = … RETURNING …
//	End      UPDATE lease SET token = token + 1, until = 0 FROM … WHERE name = … AND token = …
type Store interface {
	// Acquire gives those of the wanted names that are free to holder for ttl, each with a token
	// greater than any the name ever had. Free is what was never given or was ended; as long as the
	// store's clock is not past judge also what has expired, and what holder itself has, expired or
	// not. The answer's grants are those that it gave, in any order.
	Acquire(ctx context.Context, holder string, wants []Grant, ttl time.Duration,
		judge time.Time) (Answer, error)
	// Renew extends the leases that still have the given tokens, expired or not, to ttl from now. A
	// nil value keeps the old one. The answer's grants are those that it extended, in any order.
	// For none it still answers what time it is.
	Renew(ctx context.Context, held []Grant, ttl time.Duration) (Answer, error)
	// End ends the leases that still have the given tokens: their tokens grow, and they are free.
	// remove deletes their rows; a name that comes again must still get a greater token.
	End(ctx context.Context, held []Grant, remove bool) error
}

// Grant is a lease as the store has it.
type Grant struct {
	Name  string
	Token int64  // only grows
	Value []byte // what its holder says of itself
}

// Answer of a store.
type Answer struct {
	Now    time.Time // by the store's clock, in the transaction
	Grants []Grant
}
