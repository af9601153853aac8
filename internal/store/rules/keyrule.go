package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// ChangeKeyRule is the rule of a key after a change. One that says nothing any more has no row.
func ChangeKeyRule(r store.KeyRule, c *store.KeyChange, now int64) store.KeyRule {
	if c.Resume || r.Paused <= now {
		r.Paused = 0
	}
	if c.Pause > 0 {
		r.Paused = pausedUntil(c, now)
	}
	if c.Hold > 0 {
		r.Paused = max(r.Paused, now+c.Hold.Microseconds())
	}
	if c.Weight != nil {
		r.Weight = *c.Weight
	}
	return r
}

func pausedUntil(c *store.KeyChange, now int64) int64 {
	if c.Pause == store.Forever {
		return store.Never
	}
	return now + c.Pause.Microseconds()
}

// SaysNothing tells whether the rule of a key needs no row.
func SaysNothing(r *store.KeyRule) bool { return r.Paused == 0 && r.Weight == 0 }

// KeyUses counts the work of the group keys of a queue.
type KeyUses struct {
	Queue string
	Now   int64

	examined int
	cut      bool
	by       map[string]*store.KeyUse
}

// NewKeyUses begins to count.
func NewKeyUses(queue string, now int64) *KeyUses {
	return &KeyUses{Queue: queue, Now: now, by: map[string]*store.KeyUse{}}
}

// Left is how many more spans or tasks may be examined. It is never less than none, since a query
// with a limit below 0 has none.
func (u *KeyUses) Left() int { return max(store.KeysExamined-u.examined, 0) }

// Examined notes that a task or a span was.
func (u *KeyUses) Examined() { u.examined++ }

// Opened notes that a span was whose tasks are examined one by one: to find them takes as long as
// to examine some.
func (u *KeyUses) Opened() { u.examined += openCost }

// openCost is how many tasks of a span are examined while it is opened, as measured.
const openCost = 12

// Cut notes that there was more to examine.
func (u *KeyUses) Cut() { u.cut = true }

func (u *KeyUses) of(key string) *store.KeyUse {
	use := u.by[key]
	if use == nil {
		use = &store.KeyUse{KeyRule: store.KeyRule{Queue: u.Queue, Key: key}}
		u.by[key] = use
	}
	return use
}

// Rule takes in what is said of a key. It answers whether more may be examined.
func (u *KeyUses) Rule(key string, paused int64, weight int) bool {
	if len(u.by) >= store.KeysExamined {
		u.cut = true
		return false
	}
	if paused <= u.Now {
		paused = 0
	}
	if paused > 0 || weight > 0 {
		use := u.of(key)
		use.Paused, use.Weight = paused, weight
	}
	return true
}

// Ready counts tasks that are due and do not run; those without a key are not counted. A span may
// have none.
func (u *KeyUses) Ready(key string, n int) {
	if key != "" && n > 0 {
		u.of(key).Ready += int64(n)
	}
}

// Running counts a task that runs.
func (u *KeyUses) Running(key string) {
	if key != "" {
		u.of(key).Running++
	}
}

// Answer lists the keys, most work first.
func (u *KeyUses) Answer() store.KeyUses {
	answer := store.KeyUses{Now: u.Now, Cut: u.cut}
	for _, key := range slices.Sorted(maps.Keys(u.by)) {
		answer.Keys = append(answer.Keys, *u.by[key])
	}
	slices.SortStableFunc(answer.Keys, func(a, b store.KeyUse) int {
		return cmp.Compare(b.Ready+b.Running, a.Ready+a.Running)
	})
	return answer
}
