package capacity

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Keys is what is asked of the group keys of queues.
type Keys interface {
	// Keys says how much work the group keys of a queue have, most work first, of so many tasks at
	// most as the store looks at.
	Keys(ctx context.Context, queue string) (store.KeyUses, error)
	KeyGates(ctx context.Context, queue string, keys []string) (
		now int64, gates []store.KeyGate, err error)
	// States are the states of tasks, in the same order.
	States(ctx context.Context, ids []task.ID) ([]task.View, error)
}

const (
	// keysFor is how long a gathering looks at keys; it begins no look after that. The queues that
	// it does not come to are looked at first the next time.
	keysFor = 250 * time.Millisecond
	// keysFresh is for how long counts what was seen of the keys of a queue.
	keysFresh = 5 * time.Minute
	// keysAsked is of how many keys of a queue, those with the most work, it is asked what their
	// rates have left, and what they wait for.
	keysAsked = 1000
)

// keyLooks is what was seen of the keys of queues. One gathering at a time uses it.
type keyLooks struct {
	ask Keys
	by  map[string]keyLook
}

type keyLook struct {
	at   time.Time
	keys forecast.Keys
}

// look looks at the keys of queues, those first that were not looked at for the longest, and notes
// in each queue what is known of its keys. Only queues whose keys something may hold back are
// looked at, while they have ready tasks: of others nothing is held back.
func (l *keyLooks) look(
	ctx context.Context, confs []task.Queue, queues []forecast.Queue,
) error {
	var list []int
	seen := make(map[string]keyLook, len(l.by))
	for i := range confs {
		c, q := &confs[i], &queues[i]
		if q.ByKeys = admission.LimitsKeys(c); q.ByKeys && !c.Paused && q.Ready > 0 {
			list = append(list, i)
			seen[c.Name] = l.by[c.Name]
		}
	}
	l.by = seen
	slices.SortStableFunc(list, func(a, b int) int {
		x, y := confs[a].Name, confs[b].Name
		return cmp.Or(seen[x].at.Compare(seen[y].at), cmp.Compare(x, y))
	})
	begun := time.Now()
	for _, i := range list {
		name := confs[i].Name
		if time.Since(begun) < keysFor {
			keys, err := l.keysOf(ctx, &confs[i], queues[i].Record.Mean)
			if err != nil {
				return err
			}
			seen[name] = keyLook{time.Now(), keys}
		}
		if known := seen[name]; time.Since(known.at) < keysFresh {
			queues[i].Keys = known.keys
		}
	}
	return nil
}

// keysOf looks at the keys of one queue, whose tasks run for so many seconds.
func (l *keyLooks) keysOf(
	ctx context.Context, c *task.Queue, mean float64,
) (forecast.Keys, error) {
	uses, err := l.ask.Keys(ctx, c.Name)
	if err != nil {
		return forecast.Keys{}, err
	}
	work := make([]forecast.KeyWork, 0, len(uses.Keys))
	asked := map[string]*forecast.KeyWork{} // which are part of work
	for i := range uses.Keys {
		k := &uses.Keys[i]
		if k.Ready+k.Running == 0 {
			continue
		}
		work = append(work, forecast.KeyWork{
			Ready: k.Ready, Running: k.Running, Held: k.Paused > uses.Now, Left: -1,
		})
		w := &work[len(work)-1]
		waits := c.PerKey.Rate.Count > 0 || c.PerKey.InOrder() && k.Running == 0
		if waits && k.Ready > 0 && !w.Held && len(asked) < keysAsked {
			asked[k.Key] = w
		}
	}
	if len(asked) > 0 {
		if err := l.gates(ctx, c.Name, asked); err != nil {
			return forecast.Keys{}, err
		}
	}
	return forecast.KeysOf(work, &c.PerKey, mean, uses.Cut), nil
}

// gates notes what the rates of keys have left, and which keys wait for a task that neither runs
// nor is ready.
func (l *keyLooks) gates(
	ctx context.Context, queue string, keys map[string]*forecast.KeyWork,
) error {
	now, gates, err := l.ask.KeyGates(ctx, queue, slices.Sorted(maps.Keys(keys)))
	if err != nil {
		return err
	}
	var owners []task.ID
	var owned []*forecast.KeyWork
	for i := range gates {
		g, w := &gates[i], keys[gates[i].Key]
		if g.Limits.Rate.Count > 0 {
			rate := g.Gate
			rate.Limits.Running = 0
			w.Left = float64(rate.Left(math.MaxInt32, now))
		}
		w.Held = g.Stopped || g.Paused > now
		if !w.Held && w.Running == 0 && g.Owner != (task.ID{}) {
			owners = append(owners, g.Owner)
			owned = append(owned, w)
		}
	}
	if len(owners) == 0 {
		return nil
	}
	states, err := l.ask.States(ctx, owners)
	if err != nil {
		return err
	}
	for i := range states {
		s := states[i].State
		owned[i].Held = s == task.Waiting || s == task.Blocked
	}
	return nil
}
