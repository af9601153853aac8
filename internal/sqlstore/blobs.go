package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/rotahq/rota/internal/blob"
	"github.com/rotahq/rota/internal/rows"
)

// Keep returns short values themselves, and the reference to a blob for long ones. The blob is on the disk before the row that
// will refer to it; if that row never comes, Prune removes the blob after a day.
func (s *Store) Keep(ctx context.Context, v []byte) (rows.Value, error) {
	if len(v) <= rows.InlineLimit {
		return bytes.Clone(v), nil
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	name := blob.NewName(s.now())
	if err := s.blobs.Put(ctx, name, v); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w: %w", rows.ErrFull, err)
		}
		return nil, err
	}
	return rows.Ref(name), nil
}

// Value resolves what Keep returned.
func (s *Store) Value(ctx context.Context, v rows.Value) ([]byte, error) {
	name, ok := v.Blob()
	if !ok {
		return bytes.Clone(v), nil
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	b, err := s.blobs.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", rows.ErrNotFound, err)
	}
	return b, err
}

// deleteBlobs deletes what no row refers to any more. What can't be deleted now is an orphan, found after the next start.
func (s *Store) deleteBlobs(ctx context.Context, names []string) {
	for _, name := range names {
		if err := s.blobs.Delete(context.WithoutCancel(ctx), name); err != nil {
			s.log.Warn("blob stays behind", "err", err)
		}
	}
}

const (
	blobGrace     = 24 * time.Hour // from a blob to the row that refers to it
	blobsExamined = 200            // by one call
)

const blobKnown = `SELECT 1 FROM blob WHERE name = ?`

// pruneBlobs removes blobs that no row refers to, a day after they were written: their process died in between. Each
// is looked at once in a life of the store, because later ones are removed together with their task.
func (s *Store) pruneBlobs(ctx context.Context, now int64) error {
	p := &s.pruner
	before := blob.Day(time.UnixMicro(now).Add(-blobGrace))
	names, err := s.blobs.List(ctx, p.blobs, before, blobsExamined)
	if err != nil {
		return err
	}
	var orphans []string
	err = s.read(ctx, func(c *conn) error {
		for _, name := range names {
			known, err := c.has(blobKnown, name)
			if err != nil {
				return err
			}
			if !known {
				orphans = append(orphans, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.deleteBlobs(ctx, orphans)
	if len(names) > 0 {
		p.blobs = names[len(names)-1]
	}
	if len(names) < blobsExamined {
		p.sweep = now + time.Hour.Microseconds()
	}
	return nil
}
