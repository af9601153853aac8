package supervise

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// TestNextStateOfASession names the state after each event in each state.
func TestNextStateOfASession(t *testing.T) {
	type row [resolved + 1]sessionState
	for state, want := range map[sessionState]row{
		//           replaced, beaten,     goodbye,  silence,  outranked,  unseated,   resolved
		arriving:   {arriving, arriving, departed, departed, superseded, arriving, serving},
		serving:    {arriving, serving, leaving, departed, superseded, arriving, serving},
		leaving:    {arriving, arriving, leaving, leaving, expired, departed, leaving},
		departed:   {arriving, arriving, departed, departed, expired, departed, departed},
		superseded: {arriving, superseded, expired, expired, superseded, superseded, superseded},
		expired:    {arriving, superseded, expired, expired, expired, expired, expired},
	} {
		for e := replaced; e <= resolved; e++ {
			if got := state.next(e); got != want[e] {
				t.Errorf("state %d after event %d is %d, want %d", state, e, got, want[e])
			}
		}
	}
}

func TestReplyOfEachState(t *testing.T) {
	for state, want := range map[sessionState]reply{
		arriving: replyWait, serving: replyOrders, leaving: replyOrders, departed: replyWait,
		superseded: replySuperseded, expired: replySuperseded,
	} {
		s := session{state: state, incarnation: "i"}
		if got := s.reply("i"); got != want {
			t.Errorf("state %d replies %d, want %d", state, got, want)
		}
		if got := s.reply("other"); got != replySuperseded {
			t.Errorf("state %d replies %d to another incarnation", state, got)
		}
	}
}

func TestBeatThatMayHaveBeenElsewhereWaitsForARound(t *testing.T) {
	s := session{}
	s.hear(&task.Beat{Incarnation: "i"}, time.Time{})
	s.observe(resolved)
	if got := s.reply("i"); got != replyWait {
		t.Errorf("before the round: %d", got)
	}
	s.checked = s.beats
	if got := s.reply("i"); got != replyOrders {
		t.Errorf("after the round: %d", got)
	}
	s.hear(&task.Beat{Incarnation: "i", Version: "1"}, time.Time{})
	if got := s.reply("i"); got != replyOrders || !s.continued {
		t.Errorf("a beat that continues an answer: %d, continued %v", got, s.continued)
	}
}

func TestSessionRemembersHowItDeparts(t *testing.T) {
	s := session{}
	if s.observe(silence); s.departure != store.SeatSilent {
		t.Errorf("silent: %q", s.departure)
	}
	if s.observe(goodbye); s.departure != store.SeatLeft {
		t.Errorf("left after it was silent: %q", s.departure)
	}
	if s.observe(silence); s.departure != store.SeatLeft {
		t.Errorf("silent after it left: %q", s.departure)
	}
}

func TestRefusedRunsAreForgottenWhenASessionArrivesAnew(t *testing.T) {
	refused := map[string]bool{"token": true}
	for _, c := range []struct {
		state sessionState
		event sessionEvent
		keeps bool
	}{
		{arriving, beaten, true}, {arriving, resolved, true}, {serving, beaten, true},
		{serving, goodbye, true},
		{leaving, beaten, false}, {serving, silence, false}, {serving, unseated, false},
		{serving, outranked, false}, {serving, replaced, false},
	} {
		s := session{state: c.state, refused: refused}
		if s.observe(c.event); (s.refused != nil) != c.keeps {
			t.Errorf("state %d, event %d: keeps %v", c.state, c.event, !c.keeps)
		}
	}
}

func TestEarlierIncarnationIsNotHeard(t *testing.T) {
	s := session{}
	for _, incarnation := range []string{"i", "j"} {
		if !s.hear(&task.Beat{Incarnation: incarnation}, time.Time{}) {
			t.Errorf("%s is not heard", incarnation)
		}
	}
	if s.hear(&task.Beat{Incarnation: "i"}, time.Time{}) || s.incarnation != "j" || s.beats != 2 {
		t.Errorf("the earlier incarnation is heard: %+v", s)
	}
}

// A worker may say that it runs jobs of groups that there are not, of others with each beat: what
// is kept of that does not grow.
func TestSessionForgetsGroupsThatThereAreNot(t *testing.T) {
	cache := NewClusterCache(nil, time.Second)
	cache.groups["was"] = store.Group{}
	r, err := NewSessions(SessionsConfig{
		Cache: cache, Store: timedOut{}, Holder: store.Holder{Node: "n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := task.Beat{Worker: "w", Incarnation: "1", Groups: []string{"is", "was"}}
	r.Hear(&b)
	b.Groups = []string{"is"}
	for i := range 100 {
		b.Jobs = nil
		for k := range 10 {
			b.Jobs = append(b.Jobs, task.Run{Group: fmt.Sprintf("none-%d-%d", i, k), Job: "j"})
		}
		r.Hear(&b)
	}
	groups := r.entries["w"].groups
	if len(groups) != 12 || groups[0] != "is" || groups[11] != "was" {
		t.Errorf("it keeps %d groups: %.100q", len(groups), groups)
	}
}

// timedOut writes nothing down.
type timedOut struct{ Listener }
