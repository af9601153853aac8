//go:build unix

package postgres

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/pagebench"
)

var (
	pagesTasks = flag.Int("pages.tasks", 100_000,
		"how many tasks the store of BenchmarkPages has")
	pagesDSN = flag.String("pages.dsn", "",
		"a database that keeps the store of BenchmarkPages from one run to the next")
)

// fill makes the store of BenchmarkPages.
func fill(b *testing.B, dsn string, tasks int) {
	b.Helper()
	clock := contract.NewClock()
	s, err := Open(b.Context(), Config{DSN: dsn, Now: clock.Now})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	err = pagebench.Fill(b.Context(), s, clock, start, tasks)
	if err = errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
	b.Logf("filled with %d tasks within %v", tasks, time.Since(start).Round(time.Second))
	conn, err := pgx.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	if _, err := conn.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// What people read of a store with many tasks; see the benchmark of the other store. Ten million
// tasks in a database that stays:
//
//	go test ./internal/store/postgres -run '^$' -bench Pages -benchtime 1x -timeout 2h -args -pages.tasks 10000000 -pages.dsn postgres://…
func BenchmarkPages(b *testing.B) {
	dsn := *pagesDSN
	if dsn == "" {
		dsn = pgtest.Shared(b).Database(b)
	}
	s := open(b, Config{DSN: dsn})
	filled := false
	err := s.glance(b.Context(), ask(`SELECT EXISTS (SELECT FROM rota.batch)`, func(r row) error {
		return r.Scan(&filled)
	}))
	if err != nil {
		b.Fatal(err)
	}
	if !filled {
		fill(b, dsn, *pagesTasks)
	}
	pagebench.Run(b, s, func() time.Duration { return 0 })
}
