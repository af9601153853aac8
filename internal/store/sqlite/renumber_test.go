package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
)

// unnumber takes the tables of a file back to version 34, in which packs and marks have no row
// numbers.
func unnumber(t testing.TB, path string) {
	t.Helper()
	c, err := dial(path, sqlite.OpenReadWrite, []string{
		"BEGIN",
		`CREATE TABLE pack_before (batch INTEGER NOT NULL, lo INTEGER NOT NULL, has INTEGER NOT NULL,
  body BLOB NOT NULL, PRIMARY KEY (batch, lo)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE mark_before (batch INTEGER NOT NULL, lo INTEGER NOT NULL, bits INTEGER NOT NULL,
  body BLOB NOT NULL, PRIMARY KEY (batch, lo)) STRICT, WITHOUT ROWID`,
		"INSERT INTO pack_before SELECT * FROM pack", "INSERT INTO mark_before SELECT * FROM mark",
		"DROP TABLE pack", "DROP TABLE mark",
		"ALTER TABLE pack_before RENAME TO pack", "ALTER TABLE mark_before RENAME TO mark",
		"DELETE FROM goose_db_version WHERE version_id > 34", "COMMIT",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPacksAndMarksOfAnEarlierVersionGetRowNumbers(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	path := filepath.Join(t.TempDir(), "rota.db")
	s, err := Open(t.Context(), Config{Path: path, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := join(t, s)
	want := manifold(c)
	packs, marks := c.count(`SELECT count(*) FROM pack`), c.count(`SELECT count(*) FROM mark`)
	if len(want) < 300 || packs < 10 || marks < 4 {
		t.Fatalf("%d tasks in %d packs, %d marks: the test shows too little", len(want), packs, marks)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unnumber(t, path)
	// It is ended after each piece, so that it begins in the midst of both tables.
	var told []string
	for begun := 0; ; begun++ {
		ctx, cancel := context.WithCancel(t.Context())
		err := migrateBy(ctx, fileURI(path), 50, 3, func(what string, done, all int64) {
			if done != min(3, all) {
				t.Errorf("told of %d of %d %s", done, all, what)
			}
			told = append(told, what)
			cancel()
		})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || begun > 100 {
			t.Fatalf("it ended with %v", err)
		}
	}
	if pieces := (packs+2)/3 + (marks+2)/3; len(told) != pieces {
		t.Errorf("it was told of %d pieces, want %d: %v", len(told), pieces, told)
	}
	if s, err = Open(t.Context(), Config{Path: path, Now: clock.Now}); err != nil {
		t.Fatal(err)
	}
	c = &client{TB: t, Store: s, holder: c.holder}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if diff := cmp.Diff(want, c.all()); diff != "" {
		t.Error(diff)
	}
	if n := c.count(`SELECT count(*) FROM sqlite_schema WHERE name LIKE '%by_key'
OR name IN ('pack', 'mark') AND sql LIKE '%ROWID%'`); n != 0 {
		t.Errorf("%d tables of before are still there", n)
	}
}
