package firing

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Kind is the kind of the claims on schedules.
const Kind = "schedule"

// Keys are names of schedules while there are few, so that they are spread evenly; else shards of
// them, since a node renews each key that it has with every beat.
const (
	maxNames = 256
	shards   = 256
)

// shardOf is the key of all schedules whose names have one hash.
func shardOf(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	n := h.Sum32()
	return shardKey(byte(n ^ n>>8 ^ n>>16 ^ n>>24))
}

// shardKey has a character that no name has.
func shardKey(n byte) string { return fmt.Sprintf("#%02x", n) }

// keys is what Keys answered last.
type keys struct {
	list []string
	rest int // calls that it still answers
}

// countEvery is how many calls of Keys one count of many schedules answers.
const countEvery = 10

// Keys lists what nodes share out among them: the names of the schedules, or their shards. It is
// asked with every beat, by one at a time.
func (f *Firer) Keys(ctx context.Context) ([]string, error) {
	f.mu.Lock()
	known := f.keys
	f.keys.rest--
	f.mu.Unlock()
	if known.rest > 0 {
		return known.list, nil
	}
	got, err := f.store.ScheduleKeys(ctx, maxNames)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	known = keys{list: got.Names}
	if got.Count > maxNames {
		known = keys{list: make([]string, shards), rest: countEvery}
		for i := range known.list {
			known.list[i] = shardKey(byte(i))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = known
	return known.list, nil
}

// Look lets this node fire the schedules of a key until ctx ends. Nothing has to be finished then:
// that no due time is fired twice is not the keys' doing.
func (f *Firer) Look(ctx context.Context, key string) {
	f.own(key, true)
	defer f.own(key, false)
	f.Hear()
	<-ctx.Done()
}

func (f *Firer) own(key string, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owned[key] = yes; !yes {
		delete(f.owned, key)
	}
}

// owns tells whether this node looks after a schedule.
func (f *Firer) owns(name string) bool {
	if f.conf.Alone {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owned[name] || f.owned[shardOf(name)]
}

// Of the backstop: after how many beats a due time that nobody fired is left lying, and for how
// many a node has the chores once it did some.
const (
	leftAfter = 3
	choreFor  = 6
)

// Backstop lets this node, which does the chores at present, fire what others leave lying.
func (f *Firer) Backstop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chore = time.Now().Add(choreFor * f.conf.Beat)
}

// abandoned tells whether a due time is to be fired by whoever does the chores, and this node does.
func (f *Firer) abandoned(next int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.chore) && next <= now.Add(-leftAfter*f.conf.Beat).UnixMicro()
}

// views are schedules as people see them.
func (f *Firer) views(list []store.Schedule) []store.ScheduleView {
	owners := f.conf.Owners()
	views := make([]store.ScheduleView, len(list))
	for i, s := range list {
		views[i].Schedule = s
		switch {
		case f.conf.Alone:
			views[i].Owner = f.conf.Node
		default:
			views[i].Owner = cmp.Or(owners[Kind+"/"+s.Name], owners[Kind+"/"+shardOf(s.Name)])
		}
	}
	return views
}
