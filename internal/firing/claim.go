package firing

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"sync"
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

// claims are the schedules that this node fires: those of the keys that it looks after, and what
// others leave lying while it has the chores.
type claims struct {
	*core

	// mu guards what is below.
	mu    sync.Mutex
	owned map[string]bool // keys that this node looks after
	chore time.Time       // until then it is this node that fires what others leave lying
	keys  keys
}

// keys is what Keys answered last.
type keys struct {
	list []string
	rest int // calls that it still answers
}

// countEvery is how many more calls of Keys one count of many schedules answers.
const countEvery = 10

// Keys lists what nodes share out among them: the names of the schedules, or their shards. It is
// asked with every beat, by one at a time.
func (c *claims) Keys(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	known := c.keys
	c.keys.rest--
	c.mu.Unlock()
	if known.rest > 0 {
		return known.list, nil
	}
	got, err := c.store.ScheduleKeys(ctx, maxNames)
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = known
	return known.list, nil
}

// Look lets this node fire the schedules of a key until ctx ends. Nothing has to be finished then:
// that no due time is fired twice is not the keys' doing.
func (c *claims) Look(ctx context.Context, key string) {
	c.own(key, true)
	defer c.own(key, false)
	c.Hear()
	<-ctx.Done()
}

func (c *claims) own(key string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned[key] = yes; !yes {
		delete(c.owned, key)
	}
}

// owns tells whether this node looks after a schedule.
func (c *claims) owns(name string) bool {
	if c.conf.Alone {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned[name] || c.owned[shardOf(name)]
}

// Of the backstop: after how many beats a due time that nobody fired is left lying, and for how
// many a node has the chores once it did some.
const (
	leftAfter = 3
	choreFor  = 6
)

// Backstop lets this node, which does the chores at present, fire what others leave lying.
func (c *claims) Backstop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chore = time.Now().Add(choreFor * c.conf.Beat)
}

// abandoned tells whether a due time is to be fired by whoever does the chores, and this node does.
func (c *claims) abandoned(next int64, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.chore) && next <= now.Add(-leftAfter*c.conf.Beat).UnixMicro()
}

// withOwners are schedules as people see them: with the nodes that fire them.
func (c *claims) withOwners(list []store.Schedule) []store.ScheduleView {
	owners := c.conf.Owners()
	views := make([]store.ScheduleView, len(list))
	for i, s := range list {
		views[i].Schedule = s
		switch {
		case c.conf.Alone:
			views[i].Owner = c.conf.Node
		default:
			views[i].Owner = cmp.Or(owners[Kind+"/"+s.Name], owners[Kind+"/"+shardOf(s.Name)])
		}
	}
	return views
}
