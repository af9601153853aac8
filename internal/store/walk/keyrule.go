package walk

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// ruleKeys says something of a group key now and then, and asks what the keys of a queue have.
func (w *walk) ruleKeys() {
	queue := walkQueues[w.keyLuck.IntN(len(walkQueues))]
	if w.keyLuck.IntN(6) == 0 {
		c := store.KeyChange{Queue: queue, Key: walkKeys[w.keyLuck.IntN(len(walkKeys))]}
		switch w.keyLuck.IntN(6) {
		case 0, 1:
			long := []time.Duration{time.Millisecond, 5 * time.Second, store.Forever}
			c.Pause = long[w.keyLuck.IntN(len(long))]
		case 2, 3:
			c.Resume = true
		default:
			c.Weight = new(w.keyLuck.IntN(4))
		}
		if c.Key != "" {
			rule, err := w.ChangeKey(w.ctx, c)
			w.note("rule of key %q of %s: pause %v resume %v weight %v -> %s weight %d %s", c.Key,
				queue, c.Pause, c.Resume, weightTold(c.Weight), w.pause(rule.Paused), rule.Weight,
				w.told(err))
		}
	}
	if w.keyLuck.IntN(3) == 0 {
		uses, err := w.Keys(w.ctx, queue)
		for i := range uses.Keys { // when a pause ends is told by gates
			uses.Keys[i].Key = fmt.Sprintf("%q", uses.Keys[i].Key)
		}
		w.note("keys of %s: %s, cut %v %s", queue, caller.TellUses(&uses), uses.Cut, w.told(err))
	}
}

func weightTold(weight *int) string {
	if weight == nil {
		return "none"
	}
	return fmt.Sprint(*weight)
}

// pause is until when a key is paused as traces tell it.
func (w *walk) pause(until int64) string {
	switch until {
	case 0:
		return "not paused"
	case store.Never:
		return "paused for good"
	}
	return fmt.Sprintf("paused until %d", until-w.start)
}

// holdKey lets some retries hold their keys.
func (w *walk) holdKey(r *store.Report) {
	if r.Step.Kind == task.KindRetry && w.keyLuck.IntN(3) == 0 {
		r.HoldKey = []time.Duration{time.Second, time.Minute}[w.keyLuck.IntN(2)]
	}
}

// turns are those of a take as traces tell them.
func turns(of map[string]int) (told string) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		told += fmt.Sprintf("%q has %d a turn ", key, of[key])
	}
	return told
}
