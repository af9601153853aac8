package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A store that can't be moved aside as a whole, as when its folder is where a disk is mounted,
// stays where it is.
func TestStoreThatCannotBeMovedAsideStandsAsBefore(t *testing.T) {
	s := open(t, Config{})
	withLarge(t, s, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	path := filled(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	inTheWay := path + ".before-20261121T120000Z.blobs"
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (Restore{File: file, Path: path, Replace: true}).Write(t.Context(),
		func() time.Time { return now }); err == nil {
		t.Fatal("it was restored")
	}
	if _, err := os.Stat(path + ".moving"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it says that it is still being moved: %v", err)
	}
	n := open(t, Config{Path: path})
	if got, err := n.Counts(t.Context(), "q"); err != nil || got[0].Counts.Ready != 500 {
		t.Errorf("got %+v, %v, want 500 ready tasks", got, err)
	}
}

// A restore that is killed while it moves the old store aside is repeated. File, log and folder of
// the old one stand together then, whichever of the two has moved them: the file without its log
// would open, and lack what was committed last.
func TestStoreThatTwoRestoresMovedAsideIsWhole(t *testing.T) {
	s := open(t, Config{})
	withLarge(t, s, 1)
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	path := crashAt(t, s.path, "", 0).place(t) // all tasks stand in the log
	if err := os.CopyFS(path+".blobs", os.DirFS(s.path+".blobs")); err != nil {
		t.Fatal(err)
	}
	var killed []string
	first := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if _, err := (Restore{File: file, Path: path, Replace: true, crash: func(step string) {
		if strings.HasPrefix(step, "moving") {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(path))); err != nil {
				t.Fatal(err)
			}
			killed = append(killed, dir)
		}
	}}).Write(t.Context(), func() time.Time { return first }); err != nil {
		t.Fatal(err)
	}
	if len(killed) != 3 {
		t.Fatalf("got %d steps, want file, log and folder", len(killed))
	}
	for i, dir := range killed {
		again := Restore{File: file, Path: filepath.Join(dir, "rota.db"), Replace: true}
		if _, err := again.Write(t.Context(), func() time.Time {
			return first.Add(time.Hour)
		}); err != nil {
			t.Errorf("killed when it had moved %d: %v", i+1, err)
			continue
		}
		aside := "rota.db.before-20261121T120000Z"
		want := fmt.Sprintf("rota.db %s %[1]s-wal %[1]s.blobs rota.db.blobs rota.db.lock", aside)
		if got := listed(t, dir); got != want {
			t.Errorf("killed when it had moved %d: there stand %s", i+1, got)
		}
		n := open(t, Config{Path: filepath.Join(dir, aside)})
		if got, err := n.Counts(t.Context(), "q"); err != nil || got[0].Counts.Ready != 101 {
			t.Errorf("killed when it had moved %d: got %+v, %v, want 101 tasks", i+1, got, err)
		}
	}
}

// A restore that is killed where a store is replaced leaves no store, and a lock file that says
// that there should be one: whoever opens it is refused, and gets no empty store. The restore is
// repeated.
func TestKilledRestoreIsNoEmptyStore(t *testing.T) {
	s := open(t, Config{})
	withLarge(t, s, 1)
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	path := filled(t)
	killed := map[string][]byte{} // the lock file at each step at which no store stands there
	if _, err := (Restore{File: file, Path: path, Replace: true, crash: func(step string) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			killed[step] = read(t, path+".lock")
		}
	}}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	if len(killed) < 4 {
		t.Fatalf("there were only the steps %q", slices.Collect(maps.Keys(killed)))
	}
	for step, lock := range killed {
		path := filepath.Join(t.TempDir(), "r.db")
		write(t, path+".lock", lock)
		n, err := Open(t.Context(), Config{Path: path})
		if err == nil {
			t.Errorf("killed when it had %s: an empty store is served", step)
			n.Close()
			continue
		}
		if !strings.Contains(err.Error(), "is gone") {
			t.Errorf("killed when it had %s: got %v", step, err)
		}
		if _, err := (Restore{File: file, Path: path}).Write(t.Context(), time.Now); err != nil {
			t.Errorf("killed when it had %s: restore again: %v", step, err)
		}
		open(t, Config{Path: path})
	}
}
