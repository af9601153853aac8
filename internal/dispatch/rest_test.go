package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// traffic is a store that counts which spans nodes take and give back.
type traffic struct {
	contract.Store
	gives, takes *atomic.Int32
}

func (s *traffic) Give(ctx context.Context, r store.GiveRequest) error {
	s.gives.Add(int32(len(r.Spans)))
	return s.Store.Give(ctx, r)
}

func (s *traffic) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	s.gives.Add(int32(len(r.Rests)))
	return s.Store.GiveRest(ctx, r)
}

func (s *traffic) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	got, err := s.Store.Take(ctx, r)
	s.takes.Add(int32(len(got.Spans)))
	return got, err
}

func (s *traffic) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	got, err := s.Store.TakeRunning(ctx, h, limit)
	s.takes.Add(int32(len(got.Spans)))
	return got, err
}

// What runs of a queue with limits is not given back and taken to and fro while nothing changes,
// whoever waits for others.
func TestNothingGoesToAndFroWhileItRuns(t *testing.T) {
	// each lets tasks run at worker w, and answers them and who waits for others
	type story func(t *testing.T, a, b *house) (runs []task.Handout, waits *house)
	stories := map[string]story{
		"memory full of keys that are full": func(
			t *testing.T, a, _ *house,
		) (runs []task.Handout, waits *house) {
			a.perKey(1)
			for key := 'a'; key <= 'z'; key++ {
				a.keyed(string(key), 30)
			}
			for range 26 {
				runs = append(runs, a.holdFor("w", 10, time.Second)...)
			}
			if len(keysOf(runs)) != 26 {
				t.Errorf("%v run", keysOf(runs))
			}
			return runs, a
		},
		"two of each key": func(
			t *testing.T, a, _ *house,
		) (runs []task.Handout, waits *house) {
			a.perKey(2)
			for key := range 20 {
				a.keyed(fmt.Sprint(key), 30)
			}
			for range 40 {
				runs = append(runs, a.holdFor("w", 3, time.Second)...)
			}
			if len(runs) != 40 {
				t.Errorf("%v run", keysOf(runs))
			}
			return runs, a
		},
		"nobody waits": func(_ *testing.T, a, _ *house) ([]task.Handout, *house) {
			a.perKey(1)
			a.keyed("a", 30)
			return a.hold("w", 5), nil
		},
		"a limit of all, and nobody waits": func(
			_ *testing.T, a, _ *house,
		) ([]task.Handout, *house) {
			a.limit(3, task.Rate{}, 0)
			a.many(30)
			return a.hold("w", 5), nil
		},
		"a limit of all, and somebody waits elsewhere": func(
			_ *testing.T, a, b *house,
		) ([]task.Handout, *house) {
			a.limit(3, task.Rate{}, 0)
			time.Sleep(25 * time.Second)
			a.many(30)
			return a.hold("w", 5), b
		},
		"a key that is full, and somebody waits elsewhere": func(
			_ *testing.T, a, b *house,
		) ([]task.Handout, *house) {
			a.perKey(1)
			time.Sleep(25 * time.Second)
			a.keyed("a", 30)
			return a.hold("w", 5), b
		},
		"a pause": func(_ *testing.T, a, _ *house) ([]task.Handout, *house) {
			a.limit(3, task.Rate{}, 0)
			a.many(30)
			runs := a.hold("w", 2)
			a.set(func(q *task.Queue) { q.Paused = true })
			return runs, a
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &traffic{model.New(time.Now), new(atomic.Int32), new(atomic.Int32)}
				var d [2]*house
				for i, name := range []string{"a", "b"} {
					d[i] = openAs(t, db, name, func(c *Config) { c.Ahead = 10 })
					defer d[i].close()
				}
				d[0].beat("w", "1", 1000)
				runs, waits := story(t, d[0], d[1])
				end := time.Now().Add(2 * time.Minute)
				idle := func() {
					d[0].beat("w", "1", 1000, runs...)
					if waits == nil {
						time.Sleep(time.Second)
					} else if got := waits.holdFor("v", 10, time.Second); len(got) > 0 {
						t.Fatalf("%v beyond the limit", got)
					}
				}
				for range 30 {
					idle()
				}
				db.gives.Store(0)
				db.takes.Store(0)
				for time.Now().Before(end) {
					idle()
				}
				if gives, takes := db.gives.Load(), db.takes.Load(); gives+takes > 2 {
					t.Errorf("%d spans were given back and %d taken in %v in which nothing changed",
						gives, takes, 90*time.Second)
				}
			})
		})
	}
}

// What came back goes to the node at which workers wait, also where others of its span still run.
func TestWhatCameBackGoesWhereWorkersWait(t *testing.T) {
	for name, limit := range map[string]func(h *house){
		"a limit of all":  func(h *house) { h.limit(3, task.Rate{}, 0) },
		"limits of a key": func(h *house) { h.perKey(3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := neighbours(t, model.New(time.Now), true)
				defer time.Sleep(10 * time.Millisecond) // hints that are on their way
				defer a.close()
				defer b.close()
				limit(a)
				time.Sleep(25 * time.Second)
				a.keyed("a", 3)
				a.beat("w", "1", 3)
				runs := a.hold("w", 3)
				got := b.waits("v", 5)
				time.Sleep(3 * time.Second)
				a.beat("w", "1", 3, runs...)
				at := time.Now()
				a.outcome("w", runs[0], task.RetryAfter(time.Millisecond, errors.New("no")))
				if next := <-got; len(next) != 1 || next[0].ID != runs[0].ID ||
					time.Since(at) > time.Second {
					t.Errorf("%v after %v", next, time.Since(at))
				}
			})
		})
	}
}
