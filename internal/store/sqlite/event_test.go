package sqlite

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
)

// A file that an earlier version of the program made gets the tables of events when it is opened.
func TestTablesOfTheFirstVersionAreBroughtUp(t *testing.T) {
	story.Whole(t)
	path := filepath.Join(t.TempDir(), "rota.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	down(t, path, 1)
	if s, err = Open(t.Context(), Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Append(t.Context(), []store.Event{{Key: "x"}}); n != 1 || err != nil {
		t.Errorf("%d events are new, %v", n, err)
	}
}

// down takes the tables of a file back to a version.
func down(t *testing.T, path string, version int64) {
	t.Helper()
	unpack(t, path)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("SELECT secret FROM store"); err == nil {
		t.Fatal("the tables were not taken back")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A log of which nothing is selected is read on in pieces of bounded size.
func TestLongLogsAreReadInBoundedPieces(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "rota.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var list []store.Event
	for i := range 2*examinedEvents + 1 {
		list = append(list, store.Event{Key: string(rune(i + 0x4e00)), Kind: "common"})
	}
	list[2*examinedEvents].Kind = "rare"
	if _, err := s.Append(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	q := store.EventQuery{Kinds: []string{"rare"}, Limit: 10}
	for _, want := range []struct {
		next   int64
		events int
	}{
		{examinedEvents, 0}, {2 * examinedEvents, 0}, {2*examinedEvents + 1, 1},
		{2*examinedEvents + 1, 0},
	} {
		page, err := s.Events(t.Context(), q)
		if err != nil || page.Next != want.next || len(page.Events) != want.events {
			t.Errorf("after %d: %d events, next %d, %v; want %+v", q.After, len(page.Events),
				page.Next, err, want)
		}
		q.After = page.Next
	}
}
