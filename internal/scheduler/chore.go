package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/rows"
)

// choreName is the lease of whoever does this beat's chores.
const choreName = chorePrefix + "beat"

// upkeep is what a node remembers of the chores. Owned by the round.
type upkeep struct {
	joined  time.Time
	checked time.Time
	freed   time.Time        // when this node looked for what the dead held
	pruned  time.Time        // when it pruned to the end
	members map[string]int64 // the nodes' tokens when it freed
	view    *view            // what the last round saw
	waiting bool             // for this node's turn
}

// told is what whoever did the chores last has told people: the value of the chores' lease, so that each change is told once.
type told struct {
	States map[string]State `json:"states"`
	Gone   map[string]int64 `json:"gone,omitempty"` // since when a node is offline, in microseconds by the store's clock
	Broken bool             `json:"broken,omitempty"`
}

func (t told) equal(o told) bool { return t.Broken == o.Broken && maps.Equal(t.States, o.States) }

// buried is how long a dead node is shown.
const buried = 24 * time.Hour

// turn does the chores when it is this node's turn: nobody else is at them in this beat, and it has waited longer the busier it is,
// so that the idlest node is the first to try. A lone node need not ask anybody.
func (s *Scheduler) turn(ctx context.Context, v *view) error {
	lone, self := v.alone(s.conf.Name), holderOf(s.conf.Name, s.conf.Start)
	s.upkeep.view = v
	switch {
	case !v.calm, s.leaving(), v.chore.Until > v.now && v.chore.Holder != self:
		s.upkeep.waiting = false
		s.chore.Stop()
		return nil
	case lone && tellOf(v.chore).equal(s.told(v)):
		return s.chores(ctx, v)
	case s.upkeep.waiting:
		return nil
	}
	if wait := balance.Wait(s.conf.Busy().Score()); wait > 0 && !lone {
		s.upkeep.waiting = true
		s.chore.Reset(wait)
		return nil
	}
	return s.Chore(ctx, v.at)
}

// Chore tries for this beat's chores, and does them. Run calls it when the node has waited for its turn; Round does when there is
// nothing to wait for. Who gets their lease has it to the end of the beat.
func (s *Scheduler) Chore(ctx context.Context, now time.Time) error {
	s.upkeep.waiting = false
	v := s.upkeep.view
	if !s.keeper.Calm(now) {
		return nil // the store has been away since that round
	}
	before, after := tellOf(v.chore), s.told(v)
	value, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("write down what was told: %w", err)
	}
	ttl := max(s.conf.Beat-max(now.Sub(v.at), 0), s.conf.Beat/4)
	// Two who do the chores at a time do no harm, so nobody's death is waited for.
	got, err := s.conf.Leases.AcquireAll(ctx, holderOf(s.conf.Name, s.conf.Start), []rows.Lease{{Name: choreName, Value: value}}, ttl, math.MaxInt64)
	if err != nil {
		return fmt.Errorf("acquire %q: %w", choreName, err)
	}
	if jump := time.Duration(got.Now-v.now)*time.Microsecond - time.Since(v.at); len(got.Leases) == 0 || jump.Abs() > s.conf.TTL/4 {
		return nil // another does them, or the store's clock has jumped, of which the next round sees more
	}
	for _, e := range changes(before, after) {
		s.conf.Tell(e)
	}
	return s.chores(ctx, v)
}

// chores frees what the dead held and prunes. What it misses the next one does.
func (s *Scheduler) chores(ctx context.Context, v *view) error {
	return errors.Join(s.free(ctx, v), s.prune(ctx, v), s.sweep(ctx, v))
}

// free frees the spans of dead nodes: at once when a lease has expired or a node has come or gone, and every few beats in any case.
func (s *Scheduler) free(ctx context.Context, v *view) error {
	members := map[string]int64{}
	for _, m := range v.members {
		members[m.Name] = m.token
	}
	if !s.conf.Alone && !v.expired && v.at.Sub(s.upkeep.freed) < 5*s.conf.Beat && maps.Equal(members, s.upkeep.members) {
		return nil
	}
	freed, err := s.conf.Chores.Free(ctx, rows.Holder{Node: s.conf.Name, Token: s.node.Token()})
	if err != nil {
		return fmt.Errorf("free what the dead held: %w", err)
	}
	s.upkeep.freed, s.upkeep.members = v.at, members
	if freed > 0 {
		s.conf.Log.Info("freed what dead nodes held", "spans", freed)
	}
	return nil
}

// prune deletes what retention no longer keeps, a piece per beat; when nothing is left it rests for some beats.
func (s *Scheduler) prune(ctx context.Context, v *view) error {
	if !s.conf.Alone && v.at.Sub(s.upkeep.pruned) < 10*s.conf.Beat {
		return nil
	}
	n, err := s.conf.Chores.Prune(ctx, s.conf.Prune)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	if n == 0 {
		s.upkeep.pruned = v.at
	}
	return nil
}

// sweep removes what nobody needs any more: the ended claims of keys that no longer exist, and nodes dead for a day.
func (s *Scheduler) sweep(ctx context.Context, v *view) error {
	litter := slices.Clone(v.litter)
	for name, row := range v.claims {
		kind, _, _ := strings.Cut(name, "/")
		if row.Until == 0 && v.kinds[name] == nil && s.knows(kind) {
			litter = append(litter, row)
		}
	}
	gone := tellOf(v.chore).Gone
	for _, m := range v.members {
		if since := gone[m.Name]; m.State == Offline && since != 0 && since+buried.Microseconds() < v.now {
			litter = append(litter, rows.Lease{Name: nodePrefix + m.Name, Token: m.token})
		}
	}
	if len(litter) == 0 {
		return nil
	}
	if err := s.conf.Leases.EndAll(ctx, litter, true); err != nil {
		return fmt.Errorf("remove claims of keys that are gone: %w", err)
	}
	return nil
}

func (s *Scheduler) knows(kind string) bool {
	for _, k := range s.kinds {
		if k.Name == kind {
			return true
		}
	}
	return false
}

// Event is something that people want to know.
type Event struct {
	Kind   string
	Node   string // which it is about; "" = the cluster
	Detail string
}

// Kinds of events.
const (
	NodeJoined      = "node_joined"
	NodeLeft        = "node_left"        // in order
	NodeOffline     = "node_offline"     // its lease ended without a word
	NodeUnreachable = "node_unreachable" // for the others
	NodeReachable   = "node_reachable"   // again
	NodeDraining    = "node_draining"
	NodeUndrained   = "node_undrained"
	AlarmRaised     = "alarm_raised" // a node owns more keys than its threshold
	AlarmOver       = "alarm_over"
	BudgetBroken    = "budget_broken" // fewer nodes may die at once than is promised
	BudgetRestored  = "budget_restored"
)

// told is what there is to tell of a view. A store with one process has no fault budget.
func (s *Scheduler) told(v *view) told {
	t := told{States: map[string]State{}, Gone: map[string]int64{}, Broken: !s.conf.Alone && v.budget.Broken()}
	gone := tellOf(v.chore).Gone
	for _, m := range v.members {
		t.States[m.Name] = m.State
		if m.State != Offline {
			continue
		}
		if t.Gone[m.Name] = gone[m.Name]; gone[m.Name] == 0 {
			t.Gone[m.Name] = v.now
		}
	}
	return t
}

func tellOf(chore rows.Lease) told {
	var t told
	if err := json.Unmarshal(chore.Value, &t); err != nil {
		return told{}
	}
	return t
}

// changes are the events between two tellings.
func changes(before, after told) (list []Event) {
	names := map[string]bool{}
	for name := range before.States {
		names[name] = true
	}
	for name := range after.States {
		names[name] = true
	}
	for _, name := range sorted(names) {
		was, is := before.States[name], after.States[name]
		if kind := change(was, is); kind != "" {
			list = append(list, Event{Kind: kind, Node: name, Detail: fmt.Sprintf("it was %s, it is %s", orGone(was), orGone(is))})
		}
	}
	switch {
	case after.Broken && !before.Broken:
		list = append(list, Event{Kind: BudgetBroken, Detail: "fewer nodes may die at once than is promised"})
	case before.Broken && !after.Broken:
		list = append(list, Event{Kind: BudgetRestored, Detail: "as many nodes may die at once as is promised"})
	}
	return list
}

// change is the kind of event that leads from one state to another, and "" when there is none to tell.
func change(was, is State) string {
	switch {
	case was == is, was == Offline && is == "": // the dead are forgotten without a word
		return ""
	case is == "":
		return NodeLeft
	case is == Offline:
		return NodeOffline
	case is == Unreachable:
		return NodeUnreachable
	case was == "", was == Offline:
		return NodeJoined
	case was == Unreachable:
		return NodeReachable
	case is == Draining:
		return NodeDraining
	case was == Draining:
		return NodeUndrained
	}
	return ""
}

func orGone(s State) State {
	if s == "" {
		return "not there"
	}
	return s
}
