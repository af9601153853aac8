package sqlite

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/pagebench"
)

var (
	pagesTasks = flag.Int("pages.tasks", 100_000,
		"how many tasks the store of BenchmarkPages has")
	pagesStore = flag.String("pages.store", "",
		"a file that keeps the store of BenchmarkPages from one run to the next")
)

// fill makes the store of BenchmarkPages.
func fill(b *testing.B, path string, tasks int) {
	b.Helper()
	clock := contract.NewClock()
	s, err := Open(b.Context(), Config{Path: path, Now: clock.Now})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	err = pagebench.Fill(b.Context(), s, clock, start, tasks)
	if err = errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
	b.Logf("filled with %d tasks within %v", tasks, time.Since(start).Round(time.Second))
}

// What people read of a store with many tasks, and how long it takes. Ten million tasks and a store
// that stays:
//
//	go test ./internal/store/sqlite -run '^$' -bench Pages -benchtime 1x -timeout 2h -args -pages.tasks 10000000 -pages.store /tmp/pages.db
func BenchmarkPages(b *testing.B) {
	path := *pagesStore
	if path == "" {
		path = filepath.Join(b.TempDir(), "rota.db")
	}
	if _, err := os.Stat(path); err != nil {
		fill(b, path, *pagesTasks)
	}
	s := open(b, Config{Path: path})
	pagebench.Run(b, s, cpuTime)
}
