package queuetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/queuetest"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// house is the smallest one that gives jobs: a dispatcher, sessions and supervisors, on the
// reference model.
type house struct {
	*dispatch.Dispatcher
	store *model.Model
	begin func(group string) error // a supervisor for it
}

func (h *house) SetJobs(ctx context.Context, group string, jobs []task.Job) error {
	g := limits.DefaultGroup(group)
	g.Policy.Warmup = time.Nanosecond
	changed, err := h.store.ChangeGroup(ctx, g.Name, store.Whole(g))
	if err == nil && changed.Created {
		err = h.begin(group)
	}
	if err == nil {
		_, err = h.store.ChangeJobs(ctx, store.JobChange{Group: group, Whole: true, Put: jobs})
	}
	return err
}

// must fails the test unless there is no error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestDispatcherWithSessionsGivesJobs(t *testing.T) {
	queuetest.RunJobs(t, func(t *testing.T) queuetest.JobHouse {
		ctx, stop := context.WithCancel(context.Background())
		const beat = 50 * time.Millisecond
		secret := seal.Secret{Key: [32]byte{47, 11}}
		db := model.New(time.Now)
		lease := must[store.Lease](t)(db.Acquire(ctx, "node/n", "n", time.Hour, nil))
		holder := store.Holder{Node: "n", Token: lease.Token}
		cache := supervise.NewClusterCache(db, beat)
		h := &house{store: db}
		sessions := must[*supervise.Sessions](t)(supervise.NewSessions(supervise.SessionsConfig{
			Cache: cache, Store: db, Holder: holder, Secret: secret, Beat: beat,
			Reserve: func(worker string, load task.Units) { h.Reserve(worker, load) },
		}))
		clock := tick.New(tick.Config{})
		h.Dispatcher = must[*dispatch.Dispatcher](t)(dispatch.New(ctx, dispatch.Config{
			Store: db, Holder: holder, Clock: clock, Secret: secret, Beat: beat, Jobs: sessions,
		}))
		var loops sync.WaitGroup
		h.begin = func(group string) error {
			claim, err := db.Acquire(ctx, "claim/group/"+group, "n", time.Hour, nil)
			if err != nil {
				return err
			}
			s, err := supervise.New(supervise.Config{
				Cache: cache, Store: db, Group: group, Claim: claim, Beat: beat,
			})
			if err == nil {
				loops.Go(func() { s.Run(ctx) })
			}
			return err
		}
		for _, run := range []func(context.Context) error{clock.Run, h.Run, sessions.Run} {
			loops.Go(func() { run(ctx) })
		}
		t.Cleanup(func() {
			stop()
			h.Stop()
			loops.Wait()
			h.Close(context.Background())
		})
		return h
	})
}
