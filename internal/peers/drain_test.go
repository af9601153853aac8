package peers

import (
	"context"
	"errors"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// knows is a node that knows its workers by name, or no worker.
type knows map[string]bool

func (k knows) Workers(context.Context) ([]task.Worker, error) { return nil, nil }

func (k knows) DrainWorker(_ context.Context, name string, _ store.Drain) error {
	if !k[name] {
		return store.ErrNotFound
	}
	return nil
}

func (k knows) UndrainWorker(ctx context.Context, name string) error {
	return k.DrainWorker(ctx, name, store.Drain{})
}

func (k knows) DeleteWorker(ctx context.Context, name string) error {
	return k.DrainWorker(ctx, name, store.Drain{})
}

// A node of before would write a part, or a deadline, down as a drain of all, for ever: where this
// node has written the word, the others read it.
func TestOthersAreNotToldOfWhatTheyMightNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		worker string
		what   store.Drain
		told   bool
	}{
		"all":               {"here", store.Drain{}, true},
		"a part":            {"here", store.Drain{Shed: task.Unit}, false},
		"all by a deadline": {"here", store.Drain{By: 1}, false},
		"a part elsewhere":  {"there", store.Drain{Shed: task.Unit}, true},
	} {
		told := false
		w := NewAllWorkers(AllWorkersConfig{
			Own: knows{"here": true},
			Others: func() (reachable, away []store.Node) {
				told = true
				return nil, nil
			},
		})
		err := w.DrainWorker(t.Context(), c.worker, c.what, false)
		if told != c.told || c.worker == "here" && err != nil ||
			c.worker == "there" && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: told %v, %v", name, told, err)
		}
	}
}

// seated are the workers that have a seat.
type seated map[string]bool

func (s seated) DeleteSeat(_ context.Context, worker string) error {
	if !s[worker] {
		return store.ErrNotFound
	}
	delete(s, worker)
	return nil
}

// A worker that no node hears, and of which the store has a seat, is deleted: its jobs end.
func TestWorkerThatOnlyTheStoreKnowsIsDeleted(t *testing.T) {
	var away []store.Node
	w := NewAllWorkers(AllWorkersConfig{
		Own: knows{"heard": true}, Seats: seated{"silent": true, "lost": true},
		Others: func() (reachable, unreachable []store.Node) { return nil, away },
	})
	for _, name := range []string{"heard", "silent"} {
		if err := w.DeleteWorker(t.Context(), name, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.DeleteWorker(t.Context(), "silent", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("once more: %v", err)
	}
	away = []store.Node{{Name: "b"}} // which may hear it
	if err := w.DeleteWorker(t.Context(), "lost", false); !errors.Is(err, store.ErrAway) {
		t.Errorf("while a node is away: %v", err)
	}
}
