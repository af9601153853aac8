package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
)

// values keeps large contexts and results: those of at most store.InlineLimit bytes stand in the
// rows that have them, others are blobs to which these rows refer. The table large is its own, and
// it reads the table blob, which has the names that some row refers to.
type values struct {
	*database
	blobs Blobs // where new ones go; the table large, unless the configuration says another place
}

func newValues(d *database) *values {
	s := &values{d, d.conf.Blobs}
	if s.blobs == nil {
		s.blobs = table{d}
	}
	return s
}

// Keep returns short values themselves, and the reference to a blob for long ones. The blob is
// durable before the row that will refer to it; if that row never comes, it is removed by the call
// that was refused, or by Prune a day later.
func (s *values) Keep(ctx context.Context, v []byte) (store.Value, error) {
	if len(v) <= store.InlineLimit {
		return bytes.Clone(v), nil
	}
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	name := blob.NewName(s.today())
	switch err := s.blobs.Put(ctx, name, v); {
	case err == nil:
		return store.Ref(name), nil
	case isOurs(err):
		return nil, err
	case errors.Is(err, blob.ErrSync): // what the disk has of other blobs is unknown, too
		return nil, fmt.Errorf("%w: %w", store.ErrBroken, err)
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("%w: %w", store.ErrFull, err)
	default:
		return nil, fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
}

// today is now by this process' clock, or by the store's, if that is later: by that one a blob of
// an earlier day is taken for one that no row came to refer to.
func (s *values) today() time.Time {
	now := time.Now()
	if s.conf.Now != nil {
		now = s.conf.Now()
	}
	if theirs := time.UnixMicro(s.theirs.Load()); theirs.After(now) {
		return theirs
	}
	return now
}

// Value resolves what Keep returned.
func (s *values) Value(ctx context.Context, v store.Value) ([]byte, error) {
	name, ok := v.Blob()
	if !ok {
		return bytes.Clone(v), nil
	}
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	b, err := s.blobsOf(name).Get(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // trying again finds no more
		return nil, err
	case err != nil:
		// the task is there: only this part of it can't be read
		return nil, fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return b, nil
}

// finished is what the names of blobs begin with that the function finish wrote: into the database,
// wherever the nodes keep theirs. Their rows commit with them, so none is an orphan.
const finished = "finish/"

// blobsOf is where a blob is kept.
func (s *values) blobsOf(name string) Blobs {
	if strings.HasPrefix(name, finished) {
		return table{s.database}
	}
	return s.blobs
}

// table is the Blobs that every node reaches without further ado: rows of the database.
type table struct{ *database }

const (
	putLarge    = `INSERT INTO rota.large (name, text) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	getLarge    = `SELECT text FROM rota.large WHERE name = $1`
	deleteLarge = `DELETE FROM rota.large WHERE name = $1`
	listLarge   = `SELECT name FROM rota.large WHERE name > $1 AND name < $2 ORDER BY name LIMIT $3`
)

func (t table) Put(ctx context.Context, name string, b []byte) error {
	err := t.write(ctx, func(ctx context.Context, x *tx) error {
		return x.finish(ctx, tell(putLarge, name, b))
	})
	if err != nil {
		return fmt.Errorf("put blob %q: %w", name, err)
	}
	return nil
}

func (t table) Get(ctx context.Context, name string) (b []byte, err error) {
	found := false
	err = t.glance(ctx, ask(getLarge, func(r row) error {
		found = true
		return r.Scan(&b)
	}, name))
	if err == nil && !found {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %q: %w", name, err)
	}
	return b, nil
}

func (t table) Delete(ctx context.Context, name string) error {
	err := t.write(ctx, func(ctx context.Context, x *tx) error {
		return x.finish(ctx, tell(deleteLarge, name))
	})
	if err != nil {
		return fmt.Errorf("delete blob %q: %w", name, err)
	}
	return nil
}

func (t table) List(
	ctx context.Context, after, before string, limit int,
) (names []string, err error) {
	err = t.glance(ctx, ask(listLarge, func(r row) error {
		var name string
		err := r.Scan(&name)
		names = append(names, name)
		return err
	}, after, before, limit))
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	return names, nil
}

const blobsKnown = `SELECT name FROM rota.blob WHERE name = ANY($1::text[])`

// unknownOf are those of names that no row refers to.
func (s *values) unknownOf(ctx context.Context, names []string) (unknown []string, err error) {
	known := map[string]bool{}
	err = s.glance(ctx, ask(blobsKnown, func(r row) error {
		var name string
		err := r.Scan(&name)
		known[name] = true
		return err
	}, names))
	for _, name := range names {
		if err == nil && !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown, err
}

// dropUnused deletes the blobs among values that no row refers to: their submission or report was
// refused. When it is not known whether it was, they stay: it may be repeated.
func (s *values) dropUnused(ctx context.Context, values []store.Value) {
	var names []string
	for _, v := range values {
		if name, ok := v.Blob(); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	names, err := s.unknownOf(ctx, names)
	if err != nil {
		s.conf.Log.Warn("blobs stay behind", "error", err)
		return
	}
	s.deleteBlobs(ctx, names)
}

// deleteBlobs deletes what no row refers to any more. What can't be deleted now is an orphan, found
// later.
func (s *values) deleteBlobs(ctx context.Context, names []string) {
	for _, name := range names {
		if err := s.blobsOf(name).Delete(context.WithoutCancel(ctx), name); err != nil {
			s.conf.Log.Warn("blob stays behind", "error", err)
		}
	}
}
