package postgres

import (
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/story"
)

func TestSecretHas256BitsAndIsTheSameAtEveryNode(t *testing.T) {
	story.Whole(t)
	dsn := pgtest.Shared(t).Database(t)
	a, b := open(t, Config{DSN: dsn}), open(t, Config{DSN: dsn})
	if a.Secret().Key == ([32]byte{}) || a.Secret().Old != 0 || a.Secret() != b.Secret() {
		t.Errorf("%+v and %+v", a.Secret(), b.Secret())
	}
	if key := a.PeerKey(); len(key) != 32 || [32]byte(key) == a.Secret().Key {
		t.Errorf("nodes know each other by %d bytes", len(key))
	}
}

func TestStoreOfAnEarlierVersionGetsASecret(t *testing.T) {
	story.Whole(t)
	dsn := pgtest.Shared(t).Database(t)
	was := open(t, Config{DSN: dsn}).Secret()
	queries := []string{
		"ALTER TABLE rota.version SET SCHEMA public", "DROP SCHEMA rota CASCADE",
		"CREATE SCHEMA rota",
	}
	for version := range 8 { // as that version made it
		names, err := fs.Glob(migrations, fmt.Sprintf("migrations/%05d_*.sql", version+1))
		if err != nil || len(names) != 1 {
			t.Fatalf("version %d is made by %q, %v", version+1, names, err)
		}
		queries = append(queries, string(must(migrations.ReadFile(names[0]))(t)))
	}
	runSQL(t, dsn, append(queries, "ALTER TABLE version SET SCHEMA rota",
		"DELETE FROM rota.version WHERE version_id > 8",
		"INSERT INTO rota.store (one, identity) VALUES (1, 'of old')")...)
	before := time.Now()
	is := open(t, Config{DSN: dsn}).Secret()
	hour := time.UnixMicro(is.Since).Sub(before) // nodes of the earlier version go on for a while
	if is.Key == ([32]byte{}) || is.Key == was.Key || is.Old == 0 || hour < 50*time.Minute ||
		hour > 70*time.Minute {
		t.Errorf("it has %+v", is)
	}
	if again := open(t, Config{DSN: dsn}).Secret(); again != is {
		t.Error("opened again it has another")
	}
}
