package notify

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

func TestFailingNotifierBacksOffAndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "away", "test")
		put(t, s, "slow", "test")
		put(t, s, "well", "test")
		p.set("away", errors.New("no route"))
		p.slow["slow"] = 9 * time.Second
		h, stop := p.start(t, Config{Store: s})
		defer stop()
		start := time.Now()
		for range 3 {
			happen(t, s, "test")
		}
		h.Look()
		synctest.Wait()
		wantSeqs(t, p, "well", 1, 2, 3)
		happen(t, s, "test")
		h.Look()
		synctest.Wait()
		wantSeqs(t, p, "well", 1, 2, 3, 4)
		time.Sleep(30 * time.Minute)
		wantSeqs(t, p, "slow", 1, 2, 3, 4)
		var tries []time.Duration
		for _, at := range p.tries("away") {
			tries = append(tries, at.Sub(start))
		}
		want, at := []time.Duration{0}, time.Duration(0)
		for pause := time.Second; at+min(pause, 5*time.Minute) <= 30*time.Minute; pause *= 2 {
			at += min(pause, 5*time.Minute)
			want = append(want, at)
		}
		if !slices.Equal(tries, want) {
			t.Errorf("tries after %v\nwant %v", tries, want)
		}
		if got := served(t, s,
			"away"); got != (store.Progress{Failing: start.UnixMicro(), Trouble: "no route"}) {
			t.Errorf("progress %+v", got)
		}
		p.set("away", nil)
		time.Sleep(5 * time.Minute)
		wantSeqs(t, p, "away", 1, 2, 3, 4)
		if got := served(t, s, "away"); got != (store.Progress{Delivered: 4}) {
			t.Errorf("progress %+v", got)
		}
	})
}

func TestReceiverThatAsksToWaitIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "busy", "test")
		p.set("busy", &refusedError{text: "it answered 429", after: time.Minute})
		_, stop := p.start(t, Config{Store: s})
		defer stop()
		happen(t, s, "test")
		time.Sleep(59 * time.Second)
		if n := len(p.tries("busy")); n != 1 {
			t.Errorf("%d tries", n)
		}
	})
}

func TestDeadNotifierIsToldOfOnceAndItsReturnToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "away", "test")
		put(t, s, "well", "notifier.*")
		p.set("away", errors.New("no route"))
		_, stop := p.start(t, Config{Store: s})
		happen(t, s, "test", "test")
		time.Sleep(time.Hour - time.Second)
		if got := eventsOf(t, s, "notifier.*"); len(got) != 0 {
			t.Fatalf("told of %+v", got)
		}
		time.Sleep(6 * time.Minute)
		stop() // another node goes on, which remembers nothing
		_, stop = p.start(t, Config{Store: s})
		time.Sleep(3 * time.Hour)
		failed := eventsOf(t, s, "notifier.*")
		if len(failed) != 1 || failed[0].Kind != store.NotifierFailed ||
			failed[0].Subject != "away" ||
			failed[0].Text != "notifier away has delivered nothing for 1h0m0s: no route" {
			t.Fatalf("told of %+v", failed)
		}
		wantSeqs(t, p, "well", failed[0].Seq)
		stop()
		_, stop = p.start(t, Config{Store: s})
		defer stop()
		p.set("away", nil)
		time.Sleep(5*time.Minute + 6*time.Second)
		wantSeqs(t, p, "away", 1, 2)
		well := eventsOf(t, s, store.NotifierOK)
		if len(well) != 1 || well[0].Subject != "away" {
			t.Fatalf("told of %+v", well)
		}
		wantSeqs(t, p, "well", failed[0].Seq, well[0].Seq)
		if got := served(t, s, "away"); got.Told || got.Failing != 0 || got.Trouble != "" {
			t.Errorf("progress %+v", got)
		}
	})
}

// A notifier that was told of as failing is told of again when it delivers, and not before: what it
// is not on any more, and so passes over, shows nothing.
func TestNotifierThatPassesOverWhatFailedIsStillToldOfAsFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "away", "test")
		p.set("away", errors.New("no route"))
		_, stop := p.start(t, Config{Store: s})
		defer stop()
		happen(t, s, "test")
		time.Sleep(2 * time.Hour)
		put(t, s, "away", "other")
		time.Sleep(10 * time.Minute)
		if got := served(t, s, "away"); !got.Told || got.Failing == 0 || got.Trouble == "" {
			t.Errorf("it has delivered nothing, and its progress is %+v", got)
		}
		if got := eventsOf(t, s, store.NotifierOK); len(got) != 0 {
			t.Errorf("told of %+v", got)
		}
		p.set("away", nil)
		happen(t, s, "other")
		time.Sleep(10 * time.Minute)
		if got := eventsOf(t, s, store.NotifierOK); len(got) != 1 {
			t.Errorf("told of %+v", got)
		}
		if got := served(t, s, "away"); got.Told || got.Failing != 0 || got.Trouble != "" {
			t.Errorf("progress %+v", got)
		}
	})
}

// forgetful is a store that keeps no progress any more.
type forgetful struct {
	*model.Model
	since time.Time
}

func (f *forgetful) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (bool, error) {
	if !time.Now().Before(f.since) {
		return false, store.ErrFull
	}
	return f.Model.Advance(ctx, name, from, to)
}

func TestDeadNotifierIsToldOfOnceThoughNobodyCanNoteIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := &forgetful{model.New(time.Now), time.Now().Add(time.Minute)}, newPost()
		put(t, s, "away", "test")
		p.set("away", errors.New("no route"))
		_, stop := p.start(t, Config{Store: s})
		defer stop()
		happen(t, s, "test")
		time.Sleep(5 * time.Hour)
		if got := eventsOf(t, s, "notifier.*"); len(got) != 1 {
			t.Errorf("told of %+v", got)
		}
	})
}

func TestFailingStoreLosesNoMessage(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			s, p := model.New(time.Now), newPost()
			put(t, s, "x", "test")
			faulty := fault.New(s, fault.Seeded(seed, 2))
			for _, node := range []string{"a", "b"} {
				_, stop := p.start(t, Config{Store: faulty, Leases: faulty, Node: node, Batch: 3})
				defer stop()
			}
			for range 10 {
				happen(t, s, "test")
				time.Sleep(3 * time.Second)
			}
			time.Sleep(time.Hour)
			got := p.seqs("x")
			if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9,
				10}; !slices.Equal(slices.Compact(slices.Sorted(slices.Values(got))), want) {
				t.Errorf("seed %d: got %v", seed, got)
			}
			if at := served(t, s, "x").Delivered; at != 10 {
				t.Errorf("seed %d: served up to %d", seed, at)
			}
		})
	}
}

func TestFailingIsToldOfOnceAfterAnHour(t *testing.T) {
	hour := time.Hour.Microseconds()
	for _, c := range []struct {
		before store.Progress
		now    int64
		after  store.Progress
		tell   bool
	}{
		{store.Progress{Delivered: 3}, 10, store.Progress{Delivered: 3, Failing: 10, Trouble: "no"},
			false},
		{store.Progress{Delivered: 3, Failing: 10, Trouble: "other"}, 9 + hour,
			store.Progress{Delivered: 3, Failing: 10, Trouble: "no"}, false},
		{store.Progress{Delivered: 3, Failing: 10}, 10 + hour,
			store.Progress{Delivered: 3, Failing: 10, Trouble: "no"}, true},
		{store.Progress{Delivered: 3, Failing: 10, Told: true}, 10 + 2*hour,
			store.Progress{Delivered: 3, Failing: 10, Told: true, Trouble: "no"}, false},
		// it began by a clock that was ahead, and was set since, or is another node's
		{store.Progress{Delivered: 3, Failing: 9000 * hour}, 10,
			store.Progress{Delivered: 3, Failing: 10, Trouble: "no"}, false},
	} {
		if after, tell := failing(
			c.before, c.now, time.Hour, "no",
		); !reflect.DeepEqual(after, c.after) || tell != c.tell {
			t.Errorf("failing(%+v, %d) = %+v, %v, want %+v, %v", c.before, c.now, after, tell,
				c.after, c.tell)
		}
	}
}

// laggard reads notifiers long before it answers.
type laggard struct {
	*model.Model
	late func() time.Duration
}

func (l *laggard) Notifiers(ctx context.Context) ([]store.Notifier, error) {
	list, err := l.Model.Notifiers(ctx)
	time.Sleep(l.late())
	return list, err
}

func TestTurnThatEndsWhileNotifiersAreReadIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "slow", "test")
		p.slow["slow"] = 2 * time.Second
		reads := 0
		h, stop := p.start(t, Config{Store: &laggard{s, func() time.Duration {
			if reads++; reads%2 == 0 { // every second list is older than a turn
				return 3 * time.Second
			}
			return 0
		}}})
		defer stop()
		for range 3 {
			happen(t, s, "test")
			h.Look()
			time.Sleep(time.Second)
			h.Look()
			time.Sleep(10 * time.Second)
		}
		wantSeqs(t, p, "slow", 1, 2, 3)
	})
}
