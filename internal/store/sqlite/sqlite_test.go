package sqlite

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/rotahq/rota/internal/store/storetest"
)

var _ storetest.Store = (*Store)(nil)

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

func TestKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) storetest.Store {
		return open(t, Config{Now: clock.Now})
	})
}
