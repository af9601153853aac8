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
