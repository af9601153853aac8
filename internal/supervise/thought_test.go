package supervise

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// idleGroup is a group of so many jobs on so many workers, of which nothing runs.
func idleGroup(jobs, workers int) place.State {
	var s place.State
	for i := range jobs {
		s.Jobs = append(s.Jobs, place.Job{Name: fmt.Sprintf("j%06d", i), Load: place.Unit})
	}
	for i := range workers {
		s.Workers = append(s.Workers, place.Worker{
			Name: fmt.Sprintf("w%06d", i), Capacity: place.Load(50) * place.Unit,
		})
	}
	return s
}

func TestThoughtsThatAreTooLargeAreRefusedBeforeTheyBegin(t *testing.T) {
	s, th := idleGroup(40_000, 2000), newThoughts()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := th.begin(t.Context(), &s, place.Policy{Replicas: 1000})
	runtime.ReadMemStats(&after)
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || invalid.Fields[0].Location != "body" ||
		!strings.Contains(err.Error(), "40000 jobs of 1000 replicas on 2000 workers") ||
		!strings.Contains(err.Error(), "512 MiB is the limit") {
		t.Errorf("refused with %v", err)
	}
	if grew := after.TotalAlloc - before.TotalAlloc; grew > 1<<20 {
		t.Errorf("that took %d bytes", grew)
	}
	if _, done, err := th.begin(t.Context(), &s, place.Policy{Replicas: 20}); err != nil {
		t.Errorf("800,000 replicas: %v", err)
	} else {
		done()
	}
}

func TestPlanWhoseAnswerWouldBeTooLongIsRefused(t *testing.T) {
	s := idleGroup(40_000, 0)
	if err := tooMany(&s, 9); err != nil {
		t.Errorf("360,000 that start: %v", err)
	}
	if err := tooMany(&s, 10); err == nil ||
		!strings.Contains(err.Error(),
			"400000 replicas would start, stop or wait, and 375000 is the limit") {
		t.Errorf("400,000 that start: %v", err)
	}
	s.Jobs, s.Current = nil, make([]place.Replica, 400_000)
	if tooMany(&s, 1) == nil {
		t.Error("400,000 that stop are not refused")
	}
}

func TestTwoThinkAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, th, p := idleGroup(10, 2), newThoughts(), place.Policy{Replicas: 2}
		_, done1, err1 := th.begin(t.Context(), &s, p)
		_, done2, err2 := th.begin(t.Context(), &s, p)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		began := time.Now()
		if _, _, err := th.begin(t.Context(), &s, p); !errors.Is(err, store.ErrBusy) ||
			!strings.Contains(err.Error(), "2 plans") || time.Since(began) != thoughtWaits {
			t.Errorf("the third: %v after %v", err, time.Since(began))
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, _, err := th.begin(ctx, &s, p); !errors.Is(err, context.Canceled) {
			t.Errorf("one that has left: %v", err)
		}
		go func() {
			time.Sleep(thoughtWaits / 2)
			done1()
		}()
		_, done3, err := th.begin(t.Context(), &s, p)
		if err != nil {
			t.Errorf("when one has ended: %v", err)
		}
		done2()
		done3()
		half := idleGroup(1, 0)
		large := place.Policy{Replicas: mostThought / thoughtReplica * 2 / 3}
		_, done, err := th.begin(t.Context(), &half, large)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := th.begin(t.Context(), &half, large); !errors.Is(err, store.ErrBusy) ||
			!strings.Contains(err.Error(), "of 512 MiB") {
			t.Errorf("two that take more than there is: %v", err)
		}
		done()
		if _, done, err = th.begin(t.Context(), &half, large); err != nil {
			t.Fatalf("memory was not given back: %v", err)
		}
		done()
	})
}

// A plan ends when its caller has left, whatever it is at, and within a minute in any case.
func TestThoughtEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, th := idleGroup(10, 2), newThoughts()
		ctx, leave := context.WithCancel(t.Context())
		p, done, err := th.begin(ctx, &s, place.Policy{Replicas: 2})
		if err != nil || p.Stop() != nil {
			t.Fatal(err)
		}
		leave()
		if _, _, err := think(s, s, p); !errors.Is(err, context.Canceled) {
			t.Errorf("it goes on: %v", err)
		}
		done()
		p, done, err = th.begin(t.Context(), &s, place.Policy{Replicas: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		time.Sleep(longestThought)
		synctest.Wait()
		if err := p.Stop(); !errors.Is(err, store.ErrBusy) ||
			!strings.Contains(err.Error(), "longer than 1m0s") {
			t.Errorf("after a minute: %v", err)
		}
	})
	s, th := idleGroup(20_000, 1000), newThoughts()
	ctx, leave := context.WithCancel(t.Context())
	p, done, err := th.begin(ctx, &s, place.Policy{Replicas: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	asked, look := 0, p.Stop
	p.Stop = func() error {
		if asked++; asked == 50 {
			leave()
		}
		return look()
	}
	if _, _, err := think(s, s, p); !errors.Is(err, context.Canceled) || asked != 50 {
		t.Errorf("it looked up %d times, %v", asked, err)
	}
}

// What a thought takes of memory for each replica is at most what is reckoned for it, whether all
// have room or none has.
func TestThoughtsTakeNoMoreThanIsReckoned(t *testing.T) {
	for name, workers := range map[string]int{"all have room": 4000, "most wait": 100} {
		s := idleGroup(20_000, workers)
		inUse := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, peak, asked := inUse(), int64(0), 0
		p := place.Policy{Replicas: 5, Moves: 10, New: 4, Stop: func() error {
			if asked++; asked%100 == 0 {
				peak = max(peak, inUse())
			}
			return nil
		}}
		planned, _, err := think(s, s, p)
		peak = max(peak, inUse())
		if err != nil || len(planned.Start)+len(planned.Pending) != 100_000 {
			t.Fatalf("%s: %d start and %d wait, %v", name, len(planned.Start), len(planned.Pending),
				err)
		}
		took, reckoned := peak-before, weigh(&s, p.Replicas)
		t.Logf("%s: %d bytes a replica at the most, looked at %d times", name, took/100_000,
			asked/100)
		if took > reckoned {
			t.Errorf("%s: %d bytes, reckoned were %d", name, took, reckoned)
		}
	}
}
