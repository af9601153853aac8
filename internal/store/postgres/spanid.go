package postgres

import (
	"context"
	"fmt"
	"sync"
)

// spanBlock is how many span ids a process reserves at once; as many may stay unused when it stops.
const spanBlock = 1 << 14

// spanIDs are the reserved ids: next to end-1.
type spanIDs struct {
	mu        sync.Mutex
	next, end int64
	timeline  int64 // of the server that gave them
}

const nextBlocks = `SELECT nextval('rota.span_block') FROM generate_series(1, $1::int)`

// spanIDs gives n consecutive ids that no span ever had, asking by r for more. Who has a connection
// asks by that: were all of them to wait here for one that asks by another, none would come free. A
// server that was promoted may not know what its predecessor gave, so ids of an older timeline are
// not used.
func (d *database) spanIDs(ctx context.Context, r runner, n int) (first int64, err error) {
	p := &d.ids
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.end-p.next < int64(n) || p.timeline != d.server.line() {
		if err := d.reserve(ctx, r, n); err != nil {
			return 0, fmt.Errorf("reserve span ids: %w", err)
		}
	}
	first = p.next
	p.next += int64(n)
	return first, nil
}

// reserve gets blocks until n ids follow one another: other processes get blocks in between.
func (d *database) reserve(ctx context.Context, r runner, n int) error {
	p := &d.ids
	line := d.server.line()
	next, end := int64(0), int64(0)
	err := r.run(ctx, ask(nextBlocks, func(r row) error {
		var block int64
		if err := r.Scan(&block); err != nil {
			return err
		}
		if block*spanBlock != end {
			next = block * spanBlock
		}
		end = (block + 1) * spanBlock
		return nil
	}, n/spanBlock+1))
	if err == nil {
		p.next, p.end, p.timeline = next, end, line
	}
	return err
}
