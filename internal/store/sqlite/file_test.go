package sqlite

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// filled makes a closed store with some tasks and answers its path.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rota.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	c := join(t, s)
	for range 5 {
		c.submit(c.batch(100, 100, false))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// foreign makes a SQLite database of another program.
func foreign(t *testing.T, path string) {
	t.Helper()
	c, err := dial(path, sqlite.OpenReadWrite|sqlite.OpenCreate, []string{"CREATE TABLE other (x)"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWrongFileIsNeverServed(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string // in the error: what is wrong, or what to do
	}{
		{"vanished", remove, "is gone, but"},
		{"empty", func(t *testing.T, path string) { write(t, path, nil) }, "is empty"},
		{"empty, no lock file", func(t *testing.T, path string) {
			write(t, path, nil)
			remove(t, path+".lock")
		}, "is empty"},
		{"cut to a few bytes", func(t *testing.T, path string) {
			write(t, path, read(t, path)[:50])
		}, "not a SQLite database"},
		{"cut in half", func(t *testing.T, path string) {
			b := read(t, path)
			write(t, path, b[:len(b)/2])
		}, "malformed"},
		{"text", func(t *testing.T, path string) {
			write(t, path, bytes.Repeat([]byte("text "), 1000))
		}, "not a SQLite database"},
		{"another program's", func(t *testing.T, path string) {
			remove(t, path)
			foreign(t, path)
		}, "another program"},
		{"another store's", func(t *testing.T, path string) {
			write(t, path, read(t, filled(t)))
		}, "is another database"},
		{"from the future", func(t *testing.T, path string) {
			c, err := dial(path, sqlite.OpenReadWrite,
				[]string{"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}, "use a newer rota"},
		{"all pages but the first overwritten", func(t *testing.T, path string) {
			b := read(t, path)
			for i := 4096; i < len(b); i++ {
				b[i] = 0xa5
			}
			write(t, path, b)
		}, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filled(t)
			c.spoil(t, path)
			s, err := Open(t.Context(), Config{Path: path})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %q, want it to name the file and say %q", err, c.want)
			}
		})
	}
}

// A page that nobody reads at the start may be damaged; it is found when it is read, and then
// nothing works any more.
func TestDamagedPageBreaksTheStore(t *testing.T) {
	path := filled(t)
	b := read(t, path)
	root := rootPage(t, path, "pack")
	for i := (root - 1) * 4096; i < root*4096; i++ {
		b[i] = 0xa5
	}
	write(t, path, b)
	s := open(t, Config{Path: path})
	if _, _, err := s.Tasks(
		t.Context(), store.Filter{}, task.ID{}, 10,
	); !errors.Is(err, store.ErrBroken) {
		t.Errorf("list of a damaged table: got %v, want %v", err, store.ErrBroken)
	}
	if _, err := s.ChangeQueue(
		t.Context(), "q", store.Whole(limits.DefaultQueue("q")),
	); !errors.Is(err, store.ErrBroken) {
		t.Errorf("write after damage was found: got %v, want %v", err, store.ErrBroken)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrBroken) {
		t.Errorf("check after damage was found: got %v, want %v", err, store.ErrBroken)
	}
}

func rootPage(t *testing.T, path, table string) (page int) {
	t.Helper()
	c, err := dial(path, sqlite.OpenReadWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.one("SELECT rootpage FROM sqlite_schema WHERE name = ?", func(st *sqlite.Stmt) {
		page = st.ColumnInt(0)
	}, table); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestFileThatChangesUnderneathBreaksTheStore(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(t *testing.T, path string)
	}{
		{"removed", remove},
		{"replaced by a copy", func(t *testing.T, path string) {
			b := read(t, path)
			remove(t, path)
			write(t, path, b)
		}},
		{"shrunk", func(t *testing.T, path string) {
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
		}},
		{"without its log", func(t *testing.T, path string) { remove(t, path+"-wal") }},
		{"with its log cut", func(t *testing.T, path string) {
			if err := os.Truncate(path+"-wal", 0); err != nil {
				t.Fatal(err)
			}
		}},
		{"without its lock", func(t *testing.T, path string) { remove(t, path+".lock") }},
		{"without its blobs", func(t *testing.T, path string) {
			if err := os.RemoveAll(path + ".blobs"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(t.Context(), Config{
				Path: filled(t), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() // it may fail: the file is another one
			if _, err := s.ChangeQueue(
				t.Context(), "logged", store.Whole(limits.DefaultQueue("logged")),
			); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Fatalf("check of a whole store: %v", err)
			}
			c.happen(t, s.path)
			for range 2 {
				if err := s.Check(t.Context()); !errors.Is(err, store.ErrBroken) {
					t.Errorf("check: got %v, want %v", err, store.ErrBroken)
				}
			}
			if _, err := s.ChangeQueue(
				t.Context(), "q", store.Whole(limits.DefaultQueue("q")),
			); !errors.Is(err, store.ErrBroken) {
				t.Errorf("write: got %v, want %v", err, store.ErrBroken)
			}
		})
	}
}

func TestOneFileHasOneLockWhateverItIsCalled(t *testing.T) {
	s := open(t, Config{})
	link := filepath.Join(t.TempDir(), "other.db")
	if err := os.Symlink(s.path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(
		t.Context(), Config{Path: link},
	); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestRefusedLargeValuesLeaveNoBlob(t *testing.T) {
	s := open(t, Config{})
	v, err := s.Keep(t.Context(), make([]byte, 5000))
	if err != nil {
		t.Fatal(err)
	}
	id := task.ID{Batch: 1 << 20}
	report := store.Report{
		ID: id, Token: task.Token{Span: 1}, Step: store.Step{
			Kind: task.KindDone, Result: v, Base: store.Final,
		},
	}
	if got, err := s.Settle(
		t.Context(), store.Settlement{Reports: []store.Report{report}},
	); err != nil || got.Verdicts[0] != task.Unknown {
		t.Fatal(got, err)
	}
	if _, err := s.Value(t.Context(), v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the blob of a refused report: %v", err)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	s := open(t, Config{})
	if _, err := Open(
		t.Context(), Config{Path: s.path},
	); err == nil || !strings.Contains(err.Error(), s.path+" is in use") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestReopenedStoreKeepsWhatItHad(t *testing.T) {
	path := filled(t)
	remove(t, path+".lock") // a database that was put in place by hand is adopted
	for range 2 {
		s, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Counts(t.Context(), "q")
		if err != nil || got[0].Counts.Ready != 500 {
			t.Errorf("got %+v, %v, want 500 ready tasks", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatADyingProcessLeftOfANewStoreIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.db")
	write(t, path+".new", []byte("half"))
	open(t, Config{Path: path})
}

func TestConfigNamesAllThatIsWrong(t *testing.T) {
	_, err := Open(t.Context(), Config{
		Readers: -1, Waiting: -1, History: history.Kept{Minutes: -1},
	})
	for _, field := range []string{"path", "readers", "waiting", "history"} {
		if err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("got %v, want it to name %s", err, field)
		}
	}
}

func TestNobodyElseMayReadTheFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // files have no such modes there
	}
	path := filepath.Join(t.TempDir(), "rota.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		f, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if f.Mode().Perm()&0o077 != 0 {
			t.Errorf("rota.db%s has mode %v", suffix, f.Mode())
		}
	}
}
