package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
)

// crash is what a process leaves that dies: its files, and how many tasks it had acknowledged.
type crash struct {
	step  string
	file  []byte
	wal   []byte // nil = none
	lock  []byte
	acked int
}

func optional(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

func crashAt(t *testing.T, path, step string, acked int) crash {
	t.Helper()
	return crash{
		step, optional(t, path), optional(t, path+"-wal"), optional(t, path+".lock"), acked,
	}
}

// place writes the files into a folder of their own.
func (c crash) place(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rota.db")
	for suffix, b := range map[string][]byte{"": c.file, "-wal": c.wal, ".lock": c.lock} {
		if b != nil {
			write(t, path+suffix, b)
		}
	}
	return path
}

// open opens the files, and says how many tasks the store has then, and whether it is whole.
func (c crash) open(t *testing.T) (tasks int, err error) {
	t.Helper()
	path := c.place(t)
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		again := crashAt(t, path, c.step, c.acked)
		if !bytes.Equal(again.file, c.file) || !bytes.Equal(again.wal, c.wal) ||
			!bytes.Equal(again.lock, c.lock) {
			t.Errorf("%s: the refusal %q changed a file", c.step, err)
		}
		return 0, err
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = s.read(t.Context(), func(c *conn) error {
		if _, err := c.one(countTasks, func(st *sqlite.Stmt) {
			tasks = st.ColumnInt(0)
		}); err != nil {
			return err
		}
		whole := ""
		_, err := c.one("PRAGMA integrity_check", func(st *sqlite.Stmt) {
			whole = st.ColumnText(0)
		})
		if err == nil && whole != "ok" {
			t.Errorf("a damaged store was opened: %s", whole)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return tasks, nil
}

// refused says why the files are not opened, or nil. It only looks.
func (c crash) refused(t *testing.T) error {
	t.Helper()
	path := c.place(t)
	l, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.inspect(path)
	if e := l.release(); e != nil {
		t.Fatal(e)
	}
	again := crashAt(t, path, c.step, c.acked)
	if !bytes.Equal(again.file, c.file) || !bytes.Equal(again.wal, c.wal) ||
		!bytes.Equal(again.lock, c.lock) {
		t.Errorf("%s: looking at the files changed one (%v)", c.step, err)
	}
	return err
}

// plain opens the files as another program does, and says how many tasks are there: all that could
// be had.
func (c crash) plain(t *testing.T) (after crash, tasks int) {
	t.Helper()
	path := c.place(t)
	db, err := dial(path, sqlite.OpenReadWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.one(countTasks, func(st *sqlite.Stmt) {
		tasks = st.ColumnInt(0)
	}); err != nil && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCorrupt {
		tasks = 0 // no table yet
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return crashAt(t, path, c.step, c.acked), tasks
}

// crashes plays two lives of a store, and dies between every two steps of opening, committing,
// emptying the log and closing.
func crashes(t *testing.T) (list []crash) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rota.db")
	var acked atomic.Int64 // the writer goes on, and looks, after it has answered
	look := func(step string) { list = append(list, crashAt(t, path, step, int(acked.Load()))) }
	for life := range 2 {
		in := fmt.Sprintf("life %d, ", life)
		s, err := Open(t.Context(), Config{Path: path, logPages: 40, crash: func(step string) {
			look(in + step)
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := join(t, s)
		for i := range 5 {
			c.submit(c.batch(20, 20, false))
			acked.Add(20)
			if err := s.write(t.Context(), func(*tx) error { return nil }); err != nil {
				// now the writer waits, and changes no file meanwhile
				t.Fatal(err)
			}
			look(fmt.Sprintf("%sanswer %d", in, i))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		look(in + "end")
	}
	return list
}

// Whatever step a process dies at, its store opens and has all that was acknowledged; also when
// another program has moved the log into the file and deleted it since. Where the log is really
// lost, or cut, the store is refused, and no file is changed.
func TestStoreOpensAfterEveryCrashUnlessItsLogIsLost(t *testing.T) {
	story.Whole(t)
	emptied, refused := 0, 0
	for _, c := range crashes(t) {
		if strings.HasSuffix(c.step, "emptied") {
			emptied++
		}
		if got, err := c.open(t); err != nil || got < c.acked {
			t.Errorf("%s: got %d tasks, %v, want %d", c.step, got, err, c.acked)
		}
		if len(c.file) == 0 {
			continue
		}
		moved, _ := c.plain(t)
		if moved.wal != nil {
			t.Fatalf("%s: the log is still there: the test shows nothing", c.step)
		}
		if got, err := moved.open(t); err != nil || got < c.acked {
			t.Errorf("%s, then opened by another program: got %d tasks, %v, want %d", c.step, got,
				err, c.acked)
		}
		for name, wal := range map[string][]byte{
			"deleted": nil, "empty": {}, "cut to its header": c.wal[:min(32, len(c.wal))],
			"cut in half":   c.wal[:len(c.wal)/2],
			"zeroes":        make([]byte, len(c.wal)),
			"cut by a page": c.wal[:max(0, len(c.wal)-4120)],
		} {
			lost := c
			lost.wal = wal
			if err := lost.refused(t); err != nil {
				refused++
			} else if _, left := lost.plain(t); left < c.acked {
				t.Errorf("%s, log %s: opened with %d tasks of %d", c.step, name, left, c.acked)
			}
		}
	}
	if emptied < 3 || refused < 50 {
		t.Errorf("the log was emptied %d times, %d stores were refused: the test shows too little",
			emptied, refused)
	}
}

// SQLite moves pages one by one. A process that dies on the way leaves a file with some of them; it
// is refused without the log, and opened with it.
func TestFileWithHalfItsLogIsRefusedWithoutTheLog(t *testing.T) {
	story.Whole(t)
	const page = 4096
	list := crashes(t)
	shown := 0
	for i, c := range list {
		if !strings.HasSuffix(c.step, "noted") || shown == 2 {
			continue
		}
		after := list[i+1]
		if !strings.HasSuffix(after.step, "moved") {
			t.Fatalf("after %s comes %s", c.step, after.step)
		}
		shown++
		last := []byte(nil)
		for n := 0; n <= len(after.file); n += page {
			torn := c
			torn.step += fmt.Sprintf(", %d of %d pages moved", n/page, len(after.file)/page)
			torn.file = append(bytes.Clone(after.file[:n]), c.file[min(n, len(c.file)):]...)
			if bytes.Equal(torn.file, last) {
				continue
			}
			last = torn.file
			if got, err := torn.open(t); err != nil || got < c.acked {
				t.Errorf("%s: got %d tasks, %v, want %d", torn.step, got, err, c.acked)
			}
			torn.wal = nil
			if torn.refused(t) == nil {
				t.Errorf("%s, log deleted: opened", torn.step)
			}
		}
	}
	if shown == 0 {
		t.Error("the log was never emptied: the test shows nothing")
	}
}

// An older or newer copy of the file beside a log that is not its own, with either's lock file or
// none: refused, or whole and as that lock file says.
func TestLogOfAnotherCopyIsRefused(t *testing.T) {
	story.Whole(t)
	list := crashes(t)
	refused := 0
	for i := 0; i < len(list); i += 4 {
		for j := 1; j < len(list); j += 7 {
			if list[i].file == nil || list[j].file == nil || len(list[j].wal) == 0 || i == j {
				continue
			}
			for name, from := range map[string]crash{"file": list[i], "log": list[j], "none": {}} {
				c := crash{
					fmt.Sprintf("file at %q, log at %q, lock file: %s", list[i].step, list[j].step,
						name), list[i].file, list[j].wal, from.lock, from.acked,
				}
				if c.refused(t) != nil {
					refused++
					continue
				}
				got, err := c.open(t)
				if err != nil {
					t.Errorf("%s: %v", c.step, err)
				} else if got < c.acked {
					t.Errorf("%s: opened with %d tasks of %d", c.step, got, c.acked)
				}
			}
		}
	}
	if refused < 20 {
		t.Errorf("%d were refused: the test shows too little", refused)
	}
}

// A store that is broken leaves its files as they are. It opens again, and has all that it
// acknowledged.
func TestBrokenStoreLeavesItsLogAndOpensAgain(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *Store){
		"folder moved away and back": func(t *testing.T, s *Store) {
			if err := os.Rename(s.path+".blobs", s.path+".away"); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); !errors.Is(err, store.ErrBroken) {
				t.Errorf("check: got %v, want %v", err, store.ErrBroken)
			}
			if err := os.Rename(s.path+".away", s.path+".blobs"); err != nil {
				t.Fatal(err)
			}
		},
		"fsync failed": func(t *testing.T, s *Store) {
			if err := s.write(t.Context(), func(*tx) error {
				return sqlite.ResultIOErrFsync.ToError()
			}); !errors.Is(err, store.ErrBroken) {
				t.Errorf("write: got %v, want %v", err, store.ErrBroken)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t)
			s, err := Open(t.Context(), Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			c := join(t, s)
			c.submit(c.batch(100, 100, false))
			spoil(t, s)
			before := crashAt(t, path, name, 600)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			after := crashAt(t, path, name, 600)
			if !bytes.Equal(before.file, after.file) || !bytes.Equal(before.wal, after.wal) {
				t.Error("its end changed a file")
			}
			if got, err := after.open(t); err != nil || got != 600 {
				t.Errorf("got %d tasks, %v, want 600", got, err)
			}
		})
	}
}

func TestStoreWithoutItsFolderIsRefusedWhenTasksNeedIt(t *testing.T) {
	path := filled(t)
	remove(t, path+".blobs") // nothing is in it
	s := open(t, Config{Path: path})
	c := join(t, s)
	b := c.batch(1, 1, false)
	var err error
	if b.Tasks[0].Context, err = s.Keep(t.Context(), make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	c.submit(b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".blobs", path+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(
		t.Context(), Config{Path: path},
	); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("got %v, want a refusal", err)
	}
	if _, err := os.Stat(path + ".blobs"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the refusal made a folder: %v", err)
	}
}

func TestLogWithoutItsFileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.db")
	write(t, path+"-wal", []byte("what was committed last"))
	if _, err := Open(
		t.Context(), Config{Path: path},
	); err == nil || !strings.Contains(err.Error(), "without its file") {
		t.Errorf("got %v, want a refusal", err)
	}
	if got := string(read(t, path+"-wal")); got != "what was committed last" {
		t.Errorf("the log has %q now", got)
	}
}

// A lock file of a program that did not count says only whether it ended cleanly.
func TestLockFileOfAnOlderProgramIsRead(t *testing.T) {
	for _, state := range []string{"open  \n", "closed\n", ""} {
		path := filled(t)
		b := read(t, path+".lock")
		b = append(b[:bytes.IndexByte(b, '\n')+1], state...)
		write(t, path+".lock", b)
		for range 2 {
			if got, err := crashAt(t, path, state, 500).open(t); err != nil || got != 500 {
				t.Errorf("lock file says %q: got %d tasks, %v, want 500", state, got, err)
			}
		}
		l, err := lockFile(path)
		if err != nil {
			t.Fatal(err)
		}
		err = l.judge(path, false, standing{identity: l.identity}, standing{identity: l.identity})
		if refused := err != nil; refused != (state == "open  \n") {
			t.Errorf("lock file says %q, no log, tables that do not count: got %v", state, err)
		}
		if err := l.release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHardLinkIsRefused(t *testing.T) {
	s := open(t, Config{})
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.Link(s.path, other); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(
		t.Context(), Config{Path: other},
	); err == nil || !strings.Contains(err.Error(), "2 names") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// A store that is open is not replaced under another name either, as where that is mounted.
func TestRestoreReplacesNoStoreThatIsOpenUnderAnotherName(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere files are not locked themselves")
	}
	s := open(t, Config{})
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.Link(s.path, other); err != nil {
		t.Fatal(err)
	}
	restore := Restore{File: file, Path: other, Replace: true}
	if _, err := restore.Write(t.Context(), time.Now); err == nil ||
		!strings.Contains(err.Error(), "is in use") {
		t.Errorf("got %v, want a refusal", err)
	}
	if info, err := os.Stat(other); err != nil || !os.SameFile(info, s.file) {
		t.Errorf("another file stands there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Write(t.Context(), time.Now); err != nil {
		t.Errorf("when it is closed: %v", err)
	}
}

// The table of doc.go: commits of the file alone, with its log, at the last emptying, and as noted.
func TestWhatStandsInTheFilesIsJudged(t *testing.T) {
	for _, c := range []struct {
		name                       string
		alone, all, emptied, noted int64
		refused                    string
	}{
		{"new lock file", 10, 20, 5, 0, ""},
		{"between commits", 10, 20, 5, 20, ""},
		{"between a commit and its note", 10, 21, 5, 20, ""},
		{"just emptied", 5, 5, 5, 5, ""},
		{"the first commit after that", 5, 6, 5, 5, ""},
		{"while everything but the count is moved", 20, 21, 5, 21, ""},
		{"after the second move", 21, 21, 5, 21, ""},
		{"moved by another program", 20, 20, 5, 20, ""},
		{"moved by another program, its last commit not noted", 21, 21, 5, 20, ""},
		{"the log was deleted", 10, 10, 5, 20, "knows of 20"},
		{"the log was cut", 10, 19, 5, 20, "knows of 20"},
		{"the log is older than the file", 30, 20, 5, 20, "not the log of this file"},
		{"the log is newer than the file", 4, 20, 5, 20, "not the log of this file"},
	} {
		l := &lock{path: "x.lock", identity: "me", commits: c.noted}
		alone := standing{"me", true, c.alone, 0}
		all := standing{"me", true, c.all, c.emptied}
		err := l.judge("x", true, alone, all)
		if (err != nil) != (c.refused != "") || err != nil &&
			!strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.refused)
		}
		alone.identity = "other"
		if l.judge("x", true, alone, all) == nil {
			t.Errorf("%s, the log of another database: it is opened", c.name)
		}
		if all.identity = "other"; l.judge("x", true, alone, all) == nil {
			t.Errorf("%s, another database: it is opened", c.name)
		}
	}
}
