package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// keyWorld is what the store says of group keys.
type keyWorld struct {
	uses   store.KeyUses
	gates  []store.KeyGate
	states map[task.ID]task.State
	slow   time.Duration
	err    error
	looked []string // at the keys of these queues
	asked  [][]string
}

func (w *keyWorld) Keys(_ context.Context, queue string) (store.KeyUses, error) {
	w.looked = append(w.looked, queue)
	time.Sleep(w.slow)
	return w.uses, w.err
}

func (w *keyWorld) KeyGates(
	_ context.Context, _ string, keys []string,
) (int64, []store.KeyGate, error) {
	w.asked = append(w.asked, keys)
	return w.uses.Now, slices.DeleteFunc(slices.Clone(w.gates), func(g store.KeyGate) bool {
		return !slices.Contains(keys, g.Key)
	}), w.err
}

func (w *keyWorld) States(_ context.Context, ids []task.ID) (list []task.View, _ error) {
	for _, id := range ids {
		list = append(list, task.View{ID: id, State: w.states[id]})
	}
	return list, w.err
}

// use is the work of a key.
func use(key string, ready, running, paused int64) store.KeyUse {
	return store.KeyUse{
		KeyRule: store.KeyRule{Key: key, Paused: paused}, Ready: ready, Running: running,
	}
}

func TestKeysAreAskedWhatTheyWaitFor(t *testing.T) {
	waits, blocked, ready := task.ID{Batch: 1}, task.ID{Batch: 2}, task.ID{Batch: 3}
	order := task.KeyLimits{MaxRunning: 1}
	rate := task.KeyLimits{Rate: task.Rate{Count: 10, Per: time.Second}}
	perSecond := admission.Limits{Rate: admission.Rate{Rate: rate.Rate}}
	owned := func(key string, owner task.ID) store.KeyGate {
		return store.KeyGate{Key: key, Owner: owner}
	}
	for name, c := range map[string]struct {
		limits task.KeyLimits
		world  keyWorld
		want   []forecast.KeyWork
		asked  []string
	}{
		"pauses": {task.KeyLimits{},
			keyWorld{uses: store.KeyUses{Now: 100, Cut: true, Keys: []store.KeyUse{
				use("a", 9, 1, 101), use("b", 7, 0, 99), use("c", 0, 0, store.Never),
				use("d", 1, 0, store.Never)}}},
			[]forecast.KeyWork{{Ready: 9, Running: 1, Held: true, Left: -1},
				{Ready: 7, Left: -1}, {Ready: 1, Held: true, Left: -1}}, nil},
		"keys in order": {order,
			keyWorld{
				uses: store.KeyUses{Now: 100, Keys: []store.KeyUse{
					use("runs", 9, 1, 0), use("free", 8, 0, 0), use("waits", 7, 0, 0),
					use("blocked", 6, 0, 0), use("ready", 5, 0, 0), use("stopped", 4, 0, 0),
					use("paused", 3, 0, 200), use("resting", 0, 1, 0)}},
				gates: []store.KeyGate{owned("free", task.ID{}), owned("waits", waits),
					owned("blocked", blocked), owned("ready", ready),
					{Key: "stopped", Owner: waits, Stopped: true}},
				states: map[task.ID]task.State{
					waits: task.Waiting, blocked: task.Blocked, ready: task.Ready},
			},
			[]forecast.KeyWork{{Ready: 9, Running: 1, Left: -1}, {Ready: 8, Left: -1},
				{Ready: 7, Held: true, Left: -1}, {Ready: 6, Held: true, Left: -1},
				{Ready: 5, Left: -1}, {Ready: 4, Held: true, Left: -1},
				{Ready: 3, Held: true, Left: -1}, {Running: 1, Left: -1}},
			[]string{"blocked", "free", "ready", "stopped", "waits"}},
		"rates": {rate,
			keyWorld{
				uses: store.KeyUses{Now: 100, Keys: []store.KeyUse{
					use("a", 50, 5, 0), use("b", 40, 0, 0)}},
				gates: []store.KeyGate{
					{Key: "a", Gate: admission.Gate{
						Limits: perSecond, Bucket: admission.Bucket{At: 100}}},
					{Key: "b", Gate: admission.Gate{
						Limits: perSecond, Bucket: admission.Bucket{Level: 7e6, At: 100}}},
				},
			},
			[]forecast.KeyWork{{Ready: 50, Running: 5}, {Ready: 40, Left: 7}}, []string{"a", "b"}},
	} {
		looks := keyLooks{ask: &c.world}
		got, err := looks.keysOf(t.Context(), &task.Queue{Name: "q", PerKey: c.limits}, 2)
		want := forecast.KeysOf(c.want, &c.limits, 2, c.world.uses.Cut)
		if err != nil || got != want {
			t.Errorf("%s: %v\n%+v, want\n%+v", name, err, got, want)
		}
		var asked [][]string
		if c.asked != nil {
			asked = [][]string{c.asked}
		}
		if !slices.EqualFunc(c.world.asked, asked, slices.Equal) {
			t.Errorf("%s: asked of %v", name, c.world.asked)
		}
	}
}

func TestNoMoreKeysAreAskedThanTheMost(t *testing.T) {
	w := &keyWorld{}
	for i := range 20_000 {
		w.uses.Keys = append(w.uses.Keys, use(fmt.Sprint("k", i), int64(30_000-i), 0, 0))
	}
	looks := keyLooks{ask: w}
	limits := task.KeyLimits{MaxRunning: 1}
	if _, err := looks.keysOf(t.Context(), &task.Queue{Name: "q", PerKey: limits}, 2); err != nil ||
		len(w.asked) != 1 || len(w.asked[0]) != keysAsked || slices.Contains(w.asked[0], "k1000") {
		t.Errorf("asked %d times, %v", len(w.asked), err)
	}
}

// Nobody is asked of the keys of queues that have no limits of them, are paused or have nothing
// ready; of the others in turn, for so long at a time.
func TestKeysAreLookedAtForAQuarterOfASecondInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		w := &keyWorld{slow: 5 * time.Millisecond, uses: store.KeyUses{
			Now: 1, Keys: []store.KeyUse{use("a", 10, 0, store.Never)}}}
		confs := []task.Queue{{Name: "plain"}, {Name: "paused", Paused: true, KeyRules: true},
			{Name: "idle", KeyRules: true}, {Name: "turns", Fair: true}}
		for i := range many {
			confs = append(confs, task.Queue{Name: fmt.Sprint("q", i), KeyRules: true})
		}
		looks := keyLooks{ask: w}
		var queues []forecast.Queue
		gather := func() {
			queues = nil
			for i := range confs {
				q := forecast.Queue{Name: confs[i].Name, Ready: 10}
				if q.Name == "idle" {
					q.Ready = 0
				}
				queues = append(queues, q)
			}
			w.looked = nil
			if err := looks.look(t.Context(), confs, queues); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]int{}
		for range many / 50 {
			gather()
			if len(w.looked) != 50 {
				t.Fatalf("looked at %d queues", len(w.looked))
			}
			for _, queue := range w.looked {
				seen[queue]++
			}
			time.Sleep(every)
		}
		for _, q := range queues {
			plain := slices.Contains([]string{"plain", "paused", "idle", "turns"}, q.Name)
			if plain && (seen[q.Name] > 0 || q.Keys.Known) || !plain && (seen[q.Name] != 1 ||
				!q.ByKeys || q.Keys.Held != 10) {
				t.Fatalf("looked at %s %d times: %+v", q.Name, seen[q.Name], q)
			}
		}
		// what nobody has looked at for long says nothing any more
		time.Sleep(keysFresh)
		gather()
		known := 0
		for _, q := range queues {
			if q.Keys.Known {
				known++
			}
		}
		if known != 50 {
			t.Errorf("%d are known after a rest", known)
		}
		w.err = errAway
		if err := looks.look(t.Context(), confs, queues); !errors.Is(err, errAway) {
			t.Error(err)
		}
	})
}
