package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
)

func TestRowsSayWhoOwnsAKeyAndWhoGaveItBack(t *testing.T) {
	const now = 1_000_000
	v := view{now: now, members: []*Member{
		{Name: "a", holder: "a@2", State: Working}, {Name: "b", holder: "b@1", State: Draining},
		{Name: "c", holder: "c@1", State: Offline},
	}}
	for _, c := range []struct {
		name   string
		row    store.Lease
		owner  string // while nobody may be judged
		owner2 string // when calm
		given  bool
	}{
		{name: "never claimed", row: store.Lease{}},
		{name: "held", row: store.Lease{Holder: "a@2", Until: now + 1}, owner: "a", owner2: "a"},
		{name: "held by a predecessor not known to be dead",
			row: store.Lease{Holder: "a@1", Until: now + 1}, owner: "a@1", owner2: "a@1"},
		{name: "held by somebody unheard of", row: store.Lease{Holder: "x@1", Until: now + 1},
			owner: "x", owner2: "x"},
		{name: "expired", row: store.Lease{Holder: "a@2", Until: now}, owner: "a"},
		{name: "given back", row: store.Lease{Holder: "a@2"}, given: true},
		{name: "given back by a predecessor", row: store.Lease{Holder: "a@1"}},
		{name: "given back by one who drains", row: store.Lease{Holder: "b@1"}},
		{name: "ended for the dead", row: store.Lease{Holder: "c@1"}},
	} {
		for _, calm := range []bool{false, true} {
			v.calm = calm
			want := c.owner
			if calm {
				want = c.owner2
			}
			if got := v.owner(c.row); got != want {
				t.Errorf("%s, calm %v: owner %q, want %q", c.name, calm, got, want)
			}
			if got := v.given(c.row); got != c.given {
				t.Errorf("%s: given back %v", c.name, got)
			}
		}
	}
}

func TestMembershipThatMakesNoSenseIsANodeAllTheSame(t *testing.T) {
	for _, value := range []string{"", "x", `{"misses":3}`, `[]`, "null"} {
		m := memberOf(store.Lease{Name: "node/a", Holder: "a@1", Token: 7, Value: []byte(value)})
		if m.Name != "a" || m.holder != "a@1" || m.token != 7 || len(m.Misses) != 0 {
			t.Errorf("of %q: %+v", value, m)
		}
	}
}

func TestSelfIsReadAsItWasWritten(t *testing.T) {
	s := newParts(&core{conf: Config{Name: "a", Start: "1", Address: "10.0.0.1:7700", Weight: 2,
		Tolerance: 3, Alarm: 4, Holds: func() int {
			return 5
		}, Guard: guard{&lock{place: "here"}, "1"}}})
	busy(0.5)(&s.conf)
	s.checks.misses = map[string]int{"b": 2}
	s.kinds = []*Kind{{Name: "schedule"}}
	m := memberOf(store.Lease{Name: "node/a", Value: s.self().value()})
	if m.Address != "10.0.0.1:7700" || m.Weight != 2 || m.Tolerance != 3 || m.Alarm != 4 ||
		m.Score != 50 || m.CPU != 0.5 || m.Misses["b"] != 2 || m.Tasks != 5 || m.Guard != "here" ||
		len(m.Kinds) != 1 || time.Since(time.UnixMicro(m.Joined)) > time.Minute {
		t.Errorf("%+v", m)
	}
}

// Whatever stands in the rows, a round can be made of it.
func FuzzRowsOfAnySense(f *testing.F) {
	f.Add("node/a", "a@1", int64(5), []byte(`{"weight":-1,"misses":{"b":9},"kinds":["key"]}`))
	f.Add("claim/key/x", "a@1", int64(0), []byte(`{"moved":9223372036854775807}`))
	f.Add("chore/beat", "", int64(-1), []byte(`{}`))
	f.Add("chore/told", "", int64(-1),
		[]byte(`{"nodes":{"a":{"state":"offline","gone":1},"self":{}}}`))
	f.Fuzz(func(t *testing.T, name, holder string, until int64, value []byte) {
		d := &drawer{beat: store.Beat{Now: 100, Leases: []store.Lease{
			{Name: "node/self", Holder: "self", Token: 1, Until: 200},
			{Name: name, Holder: holder, Until: until, Value: value}}}}
		s, err := New(Config{
			Leases: model.New(time.Now), Chores: model.New(time.Now),
			Name: "self", Alone: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.drawer = d
		s.kinds = []*Kind{{Name: "key", Keys: func(context.Context) ([]string, error) {
			return []string{"x"}, nil
		}}}
		v := s.read(s.drawer.last(), time.Now())
		if err := s.snapshot(t.Context(), &v); err != nil {
			t.Fatal(err)
		}
		for _, snapshot := range v.snapshots {
			balance.Claims(snapshot)
			balance.FaultBudget(snapshot)
		}
		v.cluster()
		changes(v.told, s.told(&v))
		lastMove(v.claims["key/x"])
	})
}
