//go:build unix

package bench

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/rotahq/rota/internal/pgtest"
)

// What a URL says to rota is not said to the server, which refuses what it doesn't know; nodes are
// told all of it.
func TestBenchmarkKnowsTheParametersOfAStore(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Config{}).Database(t) + "&rota_pooler=true&rota_connections=4"
	d, err := openDatabase(t.Context(), dsn, filepath.Join(t.TempDir(), "rota-bench-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.wal(t.Context()); err != nil {
		t.Error(err)
	}
	u, err := url.Parse(d.store())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"rota_pooler": "true", "rota_connections": "4", "rota_schema": "rota_bench_1",
		"sslmode": "disable",
	} {
		if got := u.Query().Get(name); got != want {
			t.Errorf("nodes are told %s=%q, want %q", name, got, want)
		}
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
}
