package sqlite

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/store/storetest"
)

var _ contract.Store = (*Store)(nil)

// The tasks of a store, and how many of them have a first outcome.
const (
	countTasks = `SELECT count(*) FROM pack p CROSS JOIN ` + numbersDown + ` i
WHERE p.has >> i.value & 1`
	countFirst = `SELECT (SELECT count(*) FROM step WHERE seq = 0) + (SELECT count(*) FROM mark m
CROSS JOIN ` + numbersDown + ` i WHERE m.bits >> i.value & 1)`
)

// open opens a store in a folder of its own and closes it at the end of the test.
func open(t testing.TB, conf Config) *Store {
	t.Helper()
	if conf.Path == "" {
		conf.Path = filepath.Join(t.TempDir(), "rota.db")
	}
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	s, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Few calls of the contract report on many tasks of a pack at once. Here each plain outcome stands
// in a mark.
func TestKeepsTheContractByMarks(t *testing.T) {
	if testing.Short() {
		t.Skip("other rows, not other goroutines: short runs, which look for races, need not")
	}
	storetest.Run(t, model.Reference, func(t *testing.T, clock *contract.Clock) contract.Store {
		return open(t, Config{Now: clock.Now, together: 1})
	})
}

func TestKeepsTheContract(t *testing.T) {
	storetest.RunHalf(t, model.Reference, func(t *testing.T, clock *contract.Clock) contract.Store {
		return open(t, Config{Now: clock.Now})
	})
}
