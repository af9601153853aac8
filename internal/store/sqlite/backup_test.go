package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// withLarge fills a store with tasks, n of which have contexts of 5,000 bytes, and answers the ids
// of those.
func withLarge(t *testing.T, s *Store, n int) (ids []task.ID) {
	t.Helper()
	c := join(t, s)
	c.submit(c.batch(100, 100, false))
	for i := range n {
		b := c.batch(1, 1, false)
		var err error
		if b.Tasks[0].Context, err = s.Keep(
			t.Context(), bytes.Repeat([]byte{byte(i)}, 5000),
		); err != nil {
			t.Fatal(err)
		}
		c.submit(b)
		ids = append(ids, task.ID{Batch: b.ID, N: b.Tasks[0].N})
	}
	return ids
}

// listed are the files of a folder.
func listed(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestRestoredStoreHasWhatWasBackedUpAndNoTokenOfItsOldLife(t *testing.T) {
	s := open(t, Config{})
	ids := withLarge(t, s, 3)
	c := join(t, s)
	held := c.submit(c.batch(10, 10, true))
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	done, err := Backup{Path: s.path, File: file}.Write(t.Context(), time.Now)
	if err != nil || done.Values != 3 || done.Missing != 0 || done.Commits == 0 {
		t.Fatalf("got %+v, %v, want 3 large values", done, err)
	}
	if got := listed(t, dir); got != "backup" {
		t.Errorf("beside the backup stand %s", got)
	}
	if _, err := Open(
		t.Context(), Config{Path: file},
	); err == nil || !strings.Contains(err.Error(), "rota restore") {
		t.Errorf("a backup was opened as a store: %v", err)
	}
	c.submit(c.batch(7, 7, false)) // after it

	path := filepath.Join(t.TempDir(), "new.db")
	back, err := Restore{File: file, Path: path}.Write(t.Context(), time.Now)
	if err != nil || back.Values != 3 || back.Aside != "" ||
		back.Time.UnixMicro() != done.Time.UnixMicro() {
		t.Fatalf("got %+v, %v", back, err)
	}
	n := open(t, Config{Path: path})
	got, err := n.Counts(t.Context(), "q")
	if err != nil || got[0].Counts.Ready != 113 {
		t.Errorf("got %+v, %v, want 113 ready tasks: those that were handed out go out again", got,
			err)
	}
	for i, id := range ids {
		v, err := n.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if want := bytes.Repeat([]byte{byte(i)}, 5000); !bytes.Equal(v.Context, want) {
			t.Errorf("large value %d: got %d bytes, want %d", i, len(v.Context), len(want))
		}
	}
	old, id := s.Secret(), task.ID{Batch: held[0].Batch}
	if is := n.Secret(); is.Key == old.Key || is.Since != 0 || is.Old != 0 {
		t.Error("tokens of its old life are good")
	}
	given := seal.NewSealer(old).Seal(task.Token{Span: held[0].ID, SpanToken: held[0].Token}, id,
		"w")
	if seal.NewSealer(n.Secret()).Check(given, id) != seal.Forged {
		t.Error("the seal of a hand-out of its old life is good")
	}
	report := store.Report{
		ID: id, Token: task.Token{Span: held[0].ID, SpanToken: held[0].Token}, Step: store.Step{
			Kind: task.KindDone, Base: store.Final,
		},
	}
	if v, err := n.Settle(
		t.Context(), store.Settlement{Reports: []store.Report{report}},
	); err != nil || v.Verdicts[0] == task.Recorded {
		t.Errorf("a report of its old life: got %v, %v", v, err)
	}
	was, err := s.Acquire(t.Context(), "node/b", "b", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	is, err := n.Acquire(t.Context(), "node/b", "b", time.Hour, nil)
	if err != nil || is.Token <= was.Token {
		t.Errorf("got lease %+v, %v, want a token beyond %d", is, err, was.Token)
	}
	page, err := n.Events(t.Context(), store.EventQuery{Limit: 10})
	if err != nil || len(page.Events) != 1 || page.Events[0].Kind != "store.restored" ||
		page.Events[0].Seq <= leap {
		t.Errorf("got %+v, %v, want the event that says so", page, err)
	}
}

func TestRestorePausesSchedulesUnlessTold(t *testing.T) {
	s := open(t, Config{})
	err := s.write(t.Context(), func(t *tx) error {
		for i, spec := range []string{`{"queue":"q"}`, `{"queue":"q","paused":true}`} {
			_, err := t.exec(
				`INSERT INTO schedule (id, name, version, since, first, next, created, last, spec)
VALUES (?, ?, 1, 1, 1, 1, 1, 0, ?)`, i+1, fmt.Sprint("s", i), spec,
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[bool]int64{false: 1, true: 0} {
		path := filepath.Join(t.TempDir(), "new.db")
		done, err := Restore{File: file, Path: path, RunSchedules: run}.Write(t.Context(), time.Now)
		if err != nil || done.Paused != want {
			t.Errorf("run %v: got %+v, %v, want %d paused", run, done, err, want)
		}
		n := open(t, Config{Path: path})
		var first store.Schedule
		err = n.read(t.Context(), func(c *conn) error {
			s, err := c.schedules().schedule("s0")
			first = s.Schedule
			return err
		})
		if err != nil || first.Paused == run {
			t.Errorf("run %v: got %+v, %v", run, first, err)
		}
	}
}

// A backup sees one moment, whatever is written meanwhile, and large values of that moment are not
// deleted before it has them.
func TestBackupOfABusyStoreIsOneMomentOfIt(t *testing.T) {
	s := open(t, Config{logPages: 200})
	withLarge(t, s, 20)
	c := join(t, s)
	var files []string
	err := s.read(t.Context(), func(c *conn) error {
		return c.names(valuesAfter, func(n string) error { files = append(files, n); return nil })
	})
	if err != nil || len(files) != 20 {
		t.Fatal(files, err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				c.settle(c.submit(c.batch(50, 50, true)))
			}
		}
	})
	file := filepath.Join(t.TempDir(), "backup")
	once := false
	b := Backup{Path: s.path, File: file, Progress: func(what string, done, all int64) {
		if what == "large values" && !once {
			once = true
			s.deleteBlobs(t.Context(), files) // as Prune does after it deleted their rows
		}
	}}
	done, err := b.Write(t.Context(), time.Now)
	close(stop)
	wg.Wait()
	if err != nil || done.Values != 20 || done.Missing != 0 || !once {
		t.Fatalf("got %+v, %v, want 20 large values", done, err)
	}
	if !s.leftBlobs.Load() {
		t.Error("what was not deleted is not looked for again")
	}
	s.deleteBlobs(t.Context(), files)
	if _, err := s.blobs.Get(t.Context(), files[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the backup they are not deleted: %v", err)
	}
	path := filepath.Join(t.TempDir(), "new.db")
	if _, err := (Restore{File: file, Path: path}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	n := open(t, Config{Path: path})
	got, err := n.Counts(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if k := got[0].Counts; (k.Ready+k.Done-120)%50 != 0 {
		t.Errorf("got %+v, want whole batches", k)
	}
}

// Stopped at any moment, a backup and a restore leave nothing.
func TestInterruptedBackupAndRestoreLeaveNothing(t *testing.T) {
	s := open(t, Config{})
	withLarge(t, s, 5)
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"pages", "bytes", "large values"} {
		ctx, cancel := context.WithCancel(t.Context())
		stop := func(what string, done, all int64) {
			if what == when {
				cancel()
			}
		}
		dir := t.TempDir()
		if when != "bytes" {
			if _, err := (Backup{Path: s.path, File: filepath.Join(dir, "b"),
				Progress: stop}).Write(ctx, time.Now); !errors.Is(err, context.Canceled) {
				t.Errorf("backup, stopped at %s: got %v", when, err)
			}
			if got := listed(t, dir); got != "" {
				t.Errorf("backup, stopped at %s: it left %s", when, got)
			}
		}
		ctx, cancel = context.WithCancel(t.Context())
		if when != "pages" {
			if _, err := (Restore{File: file, Path: filepath.Join(dir, "r.db"),
				Progress: stop}).Write(ctx, time.Now); !errors.Is(err, context.Canceled) {
				t.Errorf("restore, stopped at %s: got %v", when, err)
			}
			if got := listed(t, dir); got != "r.db.lock" {
				t.Errorf("restore, stopped at %s: it left %s", when, got)
			}
		}
		cancel()
	}
}

// What a restore left that was killed is in nobody's way, and goes; so does, a day later, what a
// backup left.
func TestKilledBackupAndRestoreAreRepeated(t *testing.T) {
	s := open(t, Config{})
	withLarge(t, s, 2)
	dir := t.TempDir()
	part := filepath.Join(dir, ".backup.1.part")
	write(t, part, []byte("half"))
	file, path := filepath.Join(dir, "backup"), filepath.Join(dir, "r.db")
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * partAge)
	if err := os.Chtimes(part, long, long); err != nil {
		// it may have been another one's until here
		t.Fatal(err)
	}
	if _, err := (Backup{Path: s.path, File: file, Replace: true}).Write(t.Context(),
		time.Now); err != nil {
		t.Fatal(err)
	}
	write(t, path+".restoring", []byte("half"))
	if err := os.Mkdir(path+".blobs.restoring", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path+".blobs.restoring", "x"), []byte("half"))
	if _, err := (Restore{File: file, Path: path}).Write(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, dir); got != "backup r.db r.db.blobs r.db.lock" {
		t.Errorf("there stand %s", got)
	}
}

func TestNothingIsReplacedUnlessTold(t *testing.T) {
	s := open(t, Config{})
	withLarge(t, s, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	write(t, file, []byte("mine"))
	if _, err := (Backup{Path: s.path, File: file}).Write(t.Context(), time.Now); !errors.Is(err,
		ErrExists) || string(read(t, file)) != "mine" {
		t.Errorf("backup: got %v", err)
	}
	if _, err := (Backup{Path: s.path, File: file, Replace: true}).Write(t.Context(),
		time.Now); err != nil {
		t.Errorf("backup that replaces: %v", err)
	}
	for _, own := range []string{"", "-wal", ".lock"} {
		if _, err := (Backup{Path: s.path, File: s.path + own, Replace: true}).Write(t.Context(),
			time.Now); err == nil {
			t.Errorf("a backup replaced the store's own %q", own)
		}
	}
	if _, err := (Restore{File: file, Path: s.path, Replace: true}).Write(t.Context(),
		time.Now); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("restore of a store that lives: got %v", err)
	}
	if _, err := (Restore{File: s.path, Path: filepath.Join(dir, "x")}).Write(t.Context(),
		time.Now); err == nil || !strings.Contains(err.Error(), "no backup") {
		t.Errorf("restore of what is no backup: got %v", err)
	}
	path := filled(t)
	if _, err := (Restore{File: file, Path: path}).Write(t.Context(), time.Now); !errors.Is(err,
		ErrExists) {
		t.Errorf("restore: got %v", err)
	}
	done, err := Restore{File: file, Path: path, Replace: true}.Write(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]int64{path: 101, done.Aside: 500} {
		n, err := Open(t.Context(), Config{Path: at})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.Counts(t.Context(), "q"); err != nil || got[0].Counts.Ready != want {
			t.Errorf("%s: got %+v, %v, want %d ready tasks", at, got, err, want)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A backup is made of what every crash leaves, and opens with all that was acknowledged; a store
// whose log is lost is refused.
func TestBackupAfterEveryCrash(t *testing.T) {
	story.Whole(t)
	refused := 0
	for i, c := range crashes(t) {
		if len(c.file) == 0 || i%3 != 0 {
			continue
		}
		path := c.place(t)
		file := path + ".backup"
		if _, err := (Backup{Path: path, File: file}).Write(t.Context(), time.Now); err != nil {
			t.Errorf("%s: %v", c.step, err)
			continue
		}
		if got := crashAt(t, path, c.step, c.acked); !bytes.Equal(got.file, c.file) ||
			!bytes.Equal(got.wal, c.wal) {
			t.Errorf("%s: the backup changed the store", c.step)
		}
		db, err := dial(file, sqlite.OpenReadOnly, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := db.number(countTasks); err != nil || n < int64(c.acked) {
			t.Errorf("%s: the backup has %d tasks, %v, want %d", c.step, n, err, c.acked)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		c.wal = nil
		if _, err := (Backup{Path: c.place(t),
			File: filepath.Join(t.TempDir(), "b")}).Write(t.Context(), time.Now); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no store was refused: the test shows too little")
	}
}

// A page that is damaged in the store is found when the backup is checked, and the backup is not
// there.
func TestDamagedStoreGivesNoBackup(t *testing.T) {
	path := filled(t)
	b := read(t, path)
	root := rootPage(t, path, "pack")
	for i := (root - 1) * 4096; i < root*4096; i++ {
		b[i] = 0xa5
	}
	write(t, path, b)
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := (Backup{Path: path, File: file}).Write(t.Context(), time.Now); err == nil ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v, want an error that says damaged", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}
