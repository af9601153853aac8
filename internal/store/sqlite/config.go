package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rotahq/rota/internal/history"
)

// Config of a store. Only Path is needed.
type Config struct {
	Path   string           // of the database; Path.lock, Path-wal and Path-shm stand beside it
	Folder string           // for large values; "" = Path.blobs
	Blobs  Blobs            // for large values instead of a folder; nil = none
	Now    func() time.Time // the store's clock; nil = time.Now
	Log    *slog.Logger     // nil = nowhere
	// bytes of free disk below which submissions are refused, so that what runs can end; 0 =
	// 64 MiB, < 0 = none
	Reserve int64
	// connections for views; 0 = 2. More than a few would starve the writer
	Readers int
	Waiting int          // calls that may wait for the writer before store.ErrBusy; 0 = 1,024
	History history.Kept // how long the history is kept; 0 = a day and 90 days

	crash    func(step string) // for tests: what a process leaves that dies here
	logPages int64             // the log is emptied when it has so many; 0 = 4,000, which are 16 MB
	// the database may not grow past it; 0 = no limit. For tests: a full disk
	maxPages int64
	together int // plain outcomes of a pack that stand in its mark; 0 = markedTogether
}

// Blobs keeps large values. The store makes up the names, and never writes one twice.
type Blobs interface {
	// Put writes a blob: durable and whole when it returns nil, absent or garbage under an unused
	// name otherwise.
	Put(ctx context.Context, name string, b []byte) error
	// Get reads a blob; fs.ErrNotExist when there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete removes a blob; a missing one is no error.
	Delete(ctx context.Context, name string) error
	// List lists at most limit names after one and before the other, in order.
	List(ctx context.Context, after, before string, limit int) ([]string, error)
}

// complete fills in the defaults and says everything that is wrong.
func (c *Config) complete() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path: must name the database file"))
	}
	if c.Readers < 0 {
		errs = append(errs, errors.New("readers: must not be negative"))
	}
	if c.Waiting < 0 {
		errs = append(errs, errors.New("waiting: must not be negative"))
	}
	if c.History.Minutes < 0 || c.History.Hours < 0 {
		errs = append(errs, errors.New("history: must not be negative"))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Reserve == 0 {
		c.Reserve = 64 << 20
	}
	if c.Readers == 0 {
		c.Readers = 2
	}
	if c.Waiting == 0 {
		c.Waiting = 1024
	}
	if c.together == 0 {
		c.together = markedTogether
	}
	if c.logPages == 0 {
		c.logPages = 4000
	}
	c.History = c.History.Complete()
	return errors.Join(errs...)
}
