//go:build unix

package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// leasedFor makes a node whose lease is over once the time was asked for a number of times; -1 = it
// goes on.
func leasedFor(t *testing.T) (c *client, clock *contract.Clock, runsOut func(looks int)) {
	clock = contract.NewClock()
	left := -1
	c = join(t, used.fresh(t, Config{NoNotify: true, Now: func() time.Time {
		switch left {
		case 0:
			return clock.Now().Add(2 * time.Hour)
		case -1:
		default:
			left--
		}
		return clock.Now()
	}}, ""))
	return c, clock, func(looks int) { left = looks }
}

// A lease that runs out while spans are given back runs out before all of it, or behind it: no span
// is free without the rows of what runs of it, or the next holder hands that out again.
func TestSpansAreFreeWithTheRowsOfWhatRuns(t *testing.T) {
	c, clock, runsOut := leasedFor(t)
	for n := range 3 {
		sp := c.submit(c.batch(2, 2, true))[0]
		runsOut(n)
		err := c.Give(t.Context(), store.GiveRequest{
			Holder: c.holder, Spans: []store.Taking{sp.Taking()},
			Running: []store.Running{{
				ID: task.ID{Batch: sp.Batch}, Span: sp.ID, Token: sp.Token, Worker: "w",
				Started: clock.Micros(), Until: clock.Micros() + 60e6,
			}},
		})
		runsOut(-1)
		if err != nil {
			t.Fatal(err)
		}
		free := c.count("SELECT count(*) FROM rota.span WHERE holder IS NULL")
		rows := c.count("SELECT count(*) FROM rota.running")
		if free != rows {
			t.Errorf("over after %d looks: %d spans are free, %d rows stand", n, free, rows)
		}
	}
}

// A node that is told that its lease is good believes that its rows stand.
func TestRowsStandWhereTheLeaseIsSaidToBeGood(t *testing.T) {
	c, clock, runsOut := leasedFor(t)
	for n := range 4 {
		sp := c.submit(c.batch(1, 1, true))[0]
		before := c.count("SELECT count(*) FROM rota.running")
		runsOut(n)
		got, err := c.Sync(t.Context(), store.SyncRequest{
			Holder: c.holder,
			Insert: []store.Running{{
				ID: task.ID{Batch: sp.Batch}, Span: sp.ID, Token: sp.Token, Worker: "w",
				Started: clock.Micros(), Until: clock.Micros() + 60e6,
			}},
			Watch: []store.Watch{{ID: task.ID{Batch: sp.Batch}}},
		})
		runsOut(-1)
		if err != nil {
			t.Fatal(err)
		}
		rows := c.count("SELECT count(*) FROM rota.running") - before
		if !got.LeaseGone && rows != 1 {
			t.Errorf("over after %d looks: the lease is good, but no row stands", n)
		}
	}
}

// Somebody else may have the row of a span for a moment, as who prunes a task that stood in it:
// what runs of it is not written down then, and the node is told so.
func TestRowsThatCouldNotBeWrittenAreMissing(t *testing.T) {
	o := meanwhile(t)
	first, second := o.submit(o.batch(1, 1, true))[0], o.submit(o.batch(1, 1, true))[0]
	sync := func() store.Synced {
		request := store.SyncRequest{Holder: o.holder}
		for _, sp := range []store.Span{first, second} {
			request.Insert = append(request.Insert, store.Running{
				ID: task.ID{Batch: sp.Batch}, Span: sp.ID, Token: sp.Token, Worker: "w",
				Started: o.today().UnixMicro(), Until: o.today().UnixMicro() + 60e6,
			})
		}
		return must(o.Sync(t.Context(), request))(t)
	}
	o.do("UPDATE rota.span SET gaps = true WHERE id = $1", first.ID)
	if got := sync().Missing; !slices.Equal(got, []task.ID{{Batch: first.Batch}}) {
		t.Errorf("while somebody has the row of its span: missing %v", got)
	}
	o.commits()
	if got := sync().Missing; len(got) > 0 {
		t.Errorf("afterwards: missing %v", got)
	}
	if n := o.count("SELECT count(*) FROM rota.running"); n != 2 {
		t.Errorf("%d rows stand, want both", n)
	}
}
