package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func folder(t testing.TB) (*Folder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, dir
}

var today = time.Date(2026, 11, 21, 23, 59, 59, 0, time.UTC)

func put(t *testing.T, f *Folder, at time.Time, b []byte) string {
	t.Helper()
	name := NewName(at)
	if err := f.Put(t.Context(), name, b); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestBlobsComeBackByteForByte(t *testing.T) {
	f, _ := folder(t)
	for _, b := range [][]byte{{}, []byte("text"), bytes.Repeat([]byte{0, 0xff, '\n'}, 1<<20)} {
		name := put(t, f, today, b)
		got, err := f.Get(t.Context(), name)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: got %d, %v", len(b), len(got), err)
		}
	}
}

func TestMissingBlobIsNotThere(t *testing.T) {
	f, _ := folder(t)
	name := put(t, f, today, []byte("x"))
	for range 2 { // the second time there is nothing to delete, which is no error
		if err := f.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Get(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get of a deleted blob: got %v, want %v", err, fs.ErrNotExist)
		}
	}
}

func TestOldDayGoesWithItsLastBlob(t *testing.T) {
	f, dir := folder(t)
	old := time.Now().Add(-48 * time.Hour)
	a, b := put(t, f, old, []byte("a")), put(t, f, old, []byte("b"))
	for _, step := range []struct {
		name string
		left bool
	}{{a, true}, {b, false}} {
		if err := f.Delete(t.Context(), step.name); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, Day(old))); (err == nil) != step.left {
			t.Errorf("after %s: got %v, want the day to be there: %v", step.name, err, step.left)
		}
	}
}

// The directory of a day may be there and not on the disk: a process was killed that made it, or
// another call has just made it. Whoever writes into it sees to that before it answers.
func TestDayIsOnTheDiskBeforeItsFirstBlobIs(t *testing.T) {
	f, dir := folder(t)
	if err := os.Mkdir(filepath.Join(dir, Day(today)), 0o700); err != nil {
		t.Fatal(err)
	}
	var synced []string
	syncDir := f.sync
	f.sync = func(dir string) error {
		synced = append(synced, dir)
		return syncDir(dir)
	}
	for range 2 {
		put(t, f, today, []byte("x"))
	}
	if want := []string{".", Day(today), Day(today)}; !slices.Equal(synced, want) {
		t.Errorf("got %q synced, want %q", synced, want)
	}
}

// A directory that can't be opened to be synced, as with too many open files, says nothing about
// the disk: the blob is not there, and whoever writes it may try again.
func TestOnlyAnFsyncThatFailedIsOne(t *testing.T) {
	f, _ := folder(t)
	syncDir := f.sync
	for _, which := range []string{".", Day(today)} {
		f.sync = func(d string) error {
			if d == which {
				return syncDir("missing")
			}
			return syncDir(d)
		}
		err := f.Put(t.Context(), NewName(today), []byte("x"))
		if err == nil || errors.Is(err, ErrSync) {
			t.Errorf("%s can't be opened: got %v, want an error that is not %v", which, err, ErrSync)
		}
	}
	f.sync = syncDir
	put(t, f, today, []byte("x"))
}

// What others leave in the folder is in nobody's way: file managers, file systems, people.
func TestListPassesOverWhatIsNoDay(t *testing.T) {
	f, dir := folder(t)
	name := put(t, f, today, []byte("x"))
	for _, other := range []string{".DS_Store", "2026", "2026-11-20.tar"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".snapshots"), 0o000); err != nil {
		t.Fatal(err)
	}
	got, err := f.List(t.Context(), "", "2027-01-01", 10)
	if err != nil || !slices.Equal(got, []string{name}) {
		t.Errorf("got %q, %v, want %q", got, err, name)
	}
}

// The directory of a day may go while a list is made: whoever deletes its last blob takes it along.
// What stands there in the test is found in the folder, and not when it is read.
func TestListPassesOverADayThatIsGone(t *testing.T) {
	f, dir := folder(t)
	name := put(t, f, today, []byte("x"))
	if err := os.Symlink("gone", filepath.Join(dir, "2026-11-20")); err != nil {
		t.Fatal(err)
	}
	got, err := f.List(t.Context(), "", "2027-01-01", 10)
	if err != nil || !slices.Equal(got, []string{name}) {
		t.Errorf("got %q, %v, want %q", got, err, name)
	}
}

func TestListIsInOrderAndInPieces(t *testing.T) {
	f, _ := folder(t)
	var want []string
	for day := range 3 {
		for range 5 {
			want = append(want, put(t, f, today.Add(time.Duration(day)*24*time.Hour), []byte("x")))
		}
	}
	slices.Sort(want)
	before := Day(today.Add(2 * 24 * time.Hour))
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		piece, err := f.List(t.Context(), after, before, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(piece) == 0 {
			break
		}
		if got = append(got, piece...); len(piece) > 3 {
			t.Fatalf("got %d names, want at most 3", len(piece))
		}
	}
	if want = want[:10]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: without the last day", got, want)
	}
}

// What a process left that died while it wrote is no blob, and goes.
func TestUnfinishedBlobIsRemoved(t *testing.T) {
	f, dir := folder(t)
	name := put(t, f, today, []byte("x"))
	part := filepath.Join(dir, filepath.FromSlash(NewName(today))+".part")
	if err := os.WriteFile(part, []byte("hal"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := f.List(t.Context(), "", "9999", 10)
	if err != nil || !slices.Equal(got, []string{name}) {
		t.Errorf("got %v, %v, want %s", got, err, name)
	}
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished blob is still there: %v", err)
	}
}

func TestPutNeverOverwritesWhatIsBeingWritten(t *testing.T) {
	f, dir := folder(t)
	name := put(t, f, today, []byte("x"))
	if err := os.WriteFile(
		filepath.Join(dir, filepath.FromSlash(name)+".part"), nil, 0o600,
	); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), name, []byte("y")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want %v", err, fs.ErrExist)
	}
}

// Only what NewName gives is a name; nothing else reaches the file system.
func FuzzNamesNeverLeaveTheFolder(f *testing.F) {
	good := NewName(today)
	for _, s := range []string{good, "", "/", "..", "../../etc/passwd", good + "/..", "/" + good,
		"2026-11-21/", good[:len(good)-1] + "A", "2026-13-41/" + good[11:], good + "\x00"} {
		f.Add(s)
	}
	root, dir := folder(f)
	f.Fuzz(func(t *testing.T, name string) {
		err := root.Put(t.Context(), name, []byte("x"))
		if valid(name) != (err == nil) {
			t.Fatalf("put %q: %v", name, err)
		}
		if err != nil && !errors.Is(err, ErrName) {
			t.Errorf("put %q: got %v, want %v", name, err, ErrName)
		}
		if err == nil {
			if filepath.Dir(filepath.Dir(filepath.Join(dir, filepath.FromSlash(name)))) != dir ||
				strings.Contains(name, "..") {
				t.Errorf("%q left the folder", name)
			}
			err = root.Delete(t.Context(), name)
		} else {
			if _, e := root.Get(t.Context(), name); !errors.Is(e, ErrName) {
				t.Errorf("get %q: %v", name, e)
			}
			if e := root.Delete(t.Context(), name); !errors.Is(e, ErrName) {
				t.Errorf("delete %q: %v", name, e)
			}
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNamesSortByDayAndNeverMeet(t *testing.T) {
	seen := map[string]bool{}
	for i := range 1000 {
		at := today.Add(time.Duration(i) * 24 * time.Hour)
		name := NewName(at)
		if seen[name] || !valid(name) || !strings.HasPrefix(name, Day(at)+"/") {
			t.Fatalf("bad name %q for %v", name, at)
		}
		seen[name] = true
	}
	if a, b := NewName(today), NewName(today.Add(time.Second)); a >= b {
		t.Errorf("%q of one day comes after %q of the next", a, b)
	}
}

func ExampleFolder() {
	dir, err := os.MkdirTemp("", "blobs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	f, err := Open(dir)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	name := NewName(time.Now())
	if err := f.Put(context.Background(), name, []byte("a large value")); err != nil {
		panic(err)
	}
	b, err := f.Get(context.Background(), name)
	fmt.Printf("%s %v\n", b, err)
	// Output: a large value <nil>
}
