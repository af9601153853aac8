//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// oldest is the partition that stands first.
func (c *client) oldest() (p partition) {
	c.Helper()
	err := c.reading(c.Context(), func(ctx context.Context, r runner) error {
		list, err := partitions(ctx, r)
		p = list[0]
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// swaps swaps a partition, and looks at it once more if something has happened to it since.
func (c *client) swaps(keep *retention, p partition, rest sifted, now int64) {
	c.Helper()
	err := c.swap(c.Context(), p, rest)
	if errors.Is(err, store.ErrBusy) {
		rest = must(c.sift(c.Context(), keep, p, now))(c.TB)
		err = c.swap(c.Context(), p, rest)
	}
	if err != nil {
		c.Errorf("swap: %v", err)
	}
}

// What happens to tasks that are over between the look at their partition and its swap counts,
// once, also when they are over again by then: what has just ended is kept as long as anything is.
func TestWhatHappensWhileAPartitionIsRetiredCounts(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	for name, test := range map[string]struct {
		then func(c *client, id task.ID)
		want task.Counts
	}{
		"replayed, and done again": {
			func(c *client, id task.ID) {
				c.acts(id, task.KindReplayed)
				sp := must(c.Take(c.Context(), store.TakeRequest{
					Holder: c.holder, Queue: "q", Limit: 1,
				}))(c.TB).Spans[0]
				c.settles([]store.Report{
					report(&sp.Span, id.N, sp.Tasks[0].Seq, clock.Micros(), task.Finish(nil)),
				}, all(task.Recorded))
			}, task.Counts{Done: 1},
		},
		"removed": {
			func(c *client, id task.ID) {
				c.acts(id, task.KindRemoved)
			}, task.Counts{},
		},
		"deleted": {
			func(c *client, id task.ID) {
				keep := must(c.retention(c.Context()))(c.TB)
				keep.linger = 0
				n, _, err := c.dropOutlived(c.Context(), &keep, []task.ID{id}, nil, clock.Micros())
				if err != nil || n != 1 {
					c.Fatal(n, err)
				}
			}, task.Counts{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := join(t, open(t, Config{Now: clock.Now}))
			b := c.batch(2, 2, true)
			c.settle(c.submit(b))
			clock.Advance(limits.DefaultDeadKept + 48*time.Hour)
			c = join(t, c.Store)
			keep := must(c.retention(t.Context()))(t)
			p := c.oldest()
			rest := must(c.sift(t.Context(), &keep, p, clock.Micros()))(t)
			test.then(c, task.ID{Batch: b.ID})
			c.swaps(&keep, p, rest, clock.Micros())
			c.counts(test.want)
		})
	}
}

// A partition is read when those have committed who did something to its tasks before it was known
// that it is read: what they did is seen, or they find the row that says so.
func TestReadingOfAPartitionWaitsForWhatIsUnderWay(t *testing.T) {
	o := meanwhile(t)
	b := o.batch(1, 1, true)
	o.settle(o.submit(b))
	keep := must(o.retention(t.Context()))(t)
	keep.queues = map[string]task.Queue{"q": {}} // nothing is kept
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) VALUES ($1, 0, 1, -1, 0, 0, 1, 0, 1, 11, '')`, b.ID) // a replay
	p := o.oldest()
	read := make(chan sifted, 1)
	go func() {
		read <- must(o.sift(t.Context(), &keep, p, b.Created+time.Hour.Microseconds()))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if rest := <-read; len(rest.tasks) != 1 || rest.others != 0 {
		t.Errorf("%d tasks are to be kept, %d are not: want the one that is not over", len(rest.tasks),
			rest.others)
	}
}

// Who reports on tasks that a partition keeps waits for its swap before he has anything that the
// swap needs: neither holds up the other.
func TestReportsOfKeptTasksDoNotHoldUpTheSwap(t *testing.T) {
	o := meanwhile(t)
	spans := o.submit(o.batch(2, 1, true))
	o.settle(spans[:1])
	keep := must(o.retention(t.Context()))(t)
	keep.queues = map[string]task.Queue{"q": {}} // nothing that is over is kept
	p := o.oldest()
	rest := must(o.sift(t.Context(), &keep, p, o.today().Add(time.Hour).UnixMicro()))(t)
	o.do("SELECT FROM rota.batch LIMIT 1") // somebody reads
	swapped, settled := make(chan error, 1), make(chan store.Settled, 1)
	go func() { swapped <- o.swap(t.Context(), p, rest) }()
	o.awaitLock(t)
	go func() {
		settled <- must(o.Settle(t.Context(), store.Settlement{Reports: []store.Report{
			report(&spans[1], 1, 0, 1, task.Finish(nil)),
		}}))(t)
	}()
	eventually(t, func() error {
		if n := o.count(`SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != 2 {
			return fmt.Errorf("%d wait for locks", n)
		}
		return nil
	})
	if n := o.count("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '" +
		"rota.step" + p.suffix + "'::regclass"); n != 0 {
		t.Error("who reports waits for the partition's table, and has that of all steps")
	}
	o.commits()
	if err := <-swapped; err != nil {
		t.Errorf("swap: %v", err)
	}
	if got := <-settled; got.Verdicts[0] != task.Recorded {
		t.Errorf("the report: %v", got.Verdicts)
	}
	o.counts(task.Counts{Done: 1})
}
