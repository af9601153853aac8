package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

const (
	pieceSize = 64 << 10
	pause     = 50 * time.Millisecond // before a file that has not grown is looked at again
)

// follower runs the jobs of one worker: it reads files as they grow and counts their lines in the
// ledger.
type follower struct {
	name   string // the worker's
	folder string // of the files
	ledger string
}

// follow is one replica of one job, whose name is the file's. It holds no state of its own: it
// reads on from where the ledger stands, so it may end anywhere, at any moment, and another may
// begin.
func (f *follower) follow(ctx context.Context, a task.Assignment) error {
	file, err := os.Open(filepath.Join(f.folder, a.Job))
	if err != nil {
		return err
	}
	defer file.Close()
	book, err := openLedger(f.ledger)
	if err != nil {
		return err
	}
	defer book.close()
	worker.Logf(ctx, "replica %d of %s follows on %s, fence %d", a.Replica, a.Job, f.name,
		a.Token.Number)

	buffer := make([]byte, pieceSize)
	for ctx.Err() == nil {
		from, err := book.at(a.Job)
		if err != nil {
			return err
		}
		whole, err := wholeLines(file, from, buffer)
		switch {
		case err != nil:
			return err
		case len(whole) == 0:
			rest(ctx, pause)
			continue
		}
		err = book.take(piece{
			File: a.Job, Replica: a.Replica, Fence: a.Token.Number, Worker: f.name,
			From: from, To: from + int64(len(whole)),
			Lines: int64(bytes.Count(whole, []byte{'\n'})),
		})
		if err != nil && !errors.Is(err, errCounted) {
			return err
		}
	}
	return ctx.Err()
}

// wholeLines reads what follows an offset up to the last end of a line that fits the buffer.
func wholeLines(file io.ReaderAt, from int64, buffer []byte) ([]byte, error) {
	n, err := file.ReadAt(buffer, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	whole := buffer[:bytes.LastIndexByte(buffer[:n], '\n')+1]
	if len(whole) == 0 && n == len(buffer) {
		return nil, fmt.Errorf("the line at offset %d is longer than %d bytes", from, n)
	}
	return whole, nil
}

// rest waits for d, or less when ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
