package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// core is what all parts of a dispatcher have in common: what this node knows, under its lock, and
// the store. The parts hold it by pointer; it knows of them only what release begins.
type core struct {
	conf  Config
	store Store
	log   *slog.Logger

	// mu guards mem and all that hangs on it: queues, spans, items, workers. Only release lets go
	// of it, because it begins what memory wants done; it is never held while the store works.
	mu  sync.Mutex
	mem *memory

	errands errands // what release begins: the dispatcher's parts
	loads   loads   // answers of the store on their way that bring tasks into memory

	stop   chan struct{}   // closed by Stop: whoever waits here goes home
	ctx    context.Context // of the store's work: ends when Close is done
	cancel context.CancelCauseFunc
	doubts atomic.Int32 // rounds to come in which answers of the store may be missing
	broken chan error   // the first error after which the store can't be trusted; capacity 1
	work   sync.WaitGroup
}

// errands are what memory may want done that needs the store, as effects say; see release. All but
// settle are begun in goroutines of their own, which core.work counts.
type errands interface {
	// settle is called with the lock held. It says no when too many settlements wait.
	settle(*settlement) bool
	take(taking)
	verify([]handed)
	reload([]*item)
	lookAt(context.Context, keyLook) error
	lookOn()
	unblockOn()
	followOn()
	giveNow(context.Context)
}

// afterYou returns when whoever has the lock has let it go: what is found lost in one round is
// settled in one flight.
func (c *core) afterYou() {
	c.mu.Lock()
	defer c.release()
}

// note looks at a store's error: the first one after which the store can't be trusted ends Run, and
// after any that is no answer the rounds look for what one that did not come has left.
func (c *core) note(err error) {
	answered := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)
	if err != nil && !answered {
		c.doubts.Store(doubtRounds)
	}
	if errors.Is(err, store.ErrBroken) {
		select {
		case c.broken <- err:
		default:
		}
	}
}

// again repeats a write whose outcome is unknown, with the same ids, as the protocol asks (R5).
func (c *core) again(write func() error) error {
	const tries = 4
	err := c.conf.Reach()
	if err == nil {
		err = write()
	}
	for i := 1; i < tries && errors.Is(err, store.ErrUnknown); i++ {
		wait := time.NewTimer(time.Duration(i*i) * 20 * time.Millisecond)
		select {
		case <-c.ctx.Done():
			wait.Stop()
			return err
		case <-wait.C:
		}
		if c.conf.Reach() != nil {
			break // who waits is to hear of it now
		}
		if err = write(); err != nil && !errors.Is(err, store.ErrConflict) {
			// whatever became of this try, an earlier one may have worked
			err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
	}
	c.note(err)
	return err
}

func (c *core) open() error {
	c.mu.Lock()
	defer c.release()
	if c.mem.closed {
		return ErrClosed
	}
	return nil
}

// keep puts a large value into the blob store.
func (c *core) keep(ctx context.Context, v []byte) (store.Value, error) {
	if len(v) <= store.InlineLimit {
		return v, nil
	}
	kept, err := c.store.Keep(ctx, v)
	c.note(err)
	return kept, err
}

// queueConf is a queue's configuration as this node knows it.
func (c *core) queueConf(name string) task.Queue {
	c.mu.Lock()
	defer c.release()
	return c.mem.queues.confOf(name)
}

// live lists the hand-outs in memory.
func (c *core) live() map[task.ID]store.Live {
	c.mu.Lock()
	defer c.release()
	return c.mem.workers.handouts(&c.mem.clock)
}

// Holding counts the tasks that this node holds, waiting or in workers' hands.
func (c *core) Holding() int {
	c.mu.Lock()
	defer c.release()
	return c.mem.held()
}
