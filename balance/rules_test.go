package balance

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// stand is a snapshot of three working nodes, a, b and c, with so many keys each: a/0, a/1 …; a is
// asked.
func stand(a, b, c int, more ...Key) Snapshot {
	s := Snapshot{
		Self: "a", Nodes: []Node{{Name: "a", Working: true}, {Name: "b", Working: true},
			{Name: "c", Working: true}}, Keys: more,
	}
	for i, n := range []int{a, b, c} {
		for j := range n {
			s.Keys = append(s.Keys, Key{
				Name: fmt.Sprintf("%s/%d", s.Nodes[i].Name, j), Owner: s.Nodes[i].Name,
			})
		}
	}
	return s
}

// TestClaimsFollowTheRules has a line for each rule of the package comment and one for what is just
// beside it. With three nodes of n = 1 the cap is 1 + K/2.
func TestClaimsFollowTheRules(t *testing.T) {
	free := func(beats int) Key { return Key{Name: "free", Free: beats} }
	given := func(beats int) Key { return Key{Name: "free", Free: beats, Given: true} }
	manual := func(s Snapshot) Snapshot { s.Limits.Rebalance = RebalanceManual; return s }
	limited := func(s Snapshot, claim, release int) Snapshot {
		s.Limits.Claim, s.Limits.Release = claim, release
		return s
	}
	leave := func(s Snapshot) Snapshot { s.Nodes[0].Working = false; return s }
	resting := func(s Snapshot) Snapshot {
		for i := range s.Keys {
			s.Keys[i].Resting = s.Keys[i].Owner == "a" && s.Keys[i].Name != "a/5"
		}
		return s
	}
	for _, test := range []struct {
		name     string
		s        Snapshot
		claim    int
		release  int
		refusals string // of "free"
	}{
		{"below its share", stand(2, 3, 3, free(0)), 1, 0, ""},
		{"below its share, given by choice", stand(2, 3, 3, given(0)), 1, 0, ""},
		{"at its share, others below", stand(3, 2, 3, free(0)), 0, 0,
			"left to a node below its share: b"},
		{"at its share, left for a beat", stand(3, 2, 3, free(1)), 1, 0, ""},
		{"at its share, given by choice a beat ago", stand(3, 2, 3, given(2)), 0, 0,
			"left to a node below its share: b"},
		{"at its share, given by choice and orphaned", stand(3, 2, 3, given(3)), 1, 0, ""},
		{"one below its cap", manual(stand(5, 1, 3, free(1))), 1, 0, ""},
		{"at its cap", manual(stand(6, 1, 3, free(2))), 0, 0, "this node is at its cap"},
		{"at its cap, orphaned", manual(stand(6, 1, 3, free(3))), 1, 0, ""},
		{"above its cap, orphaned", manual(stand(9, 0, 0, free(3))), 1, 0, ""},
		{"above its share while another is below", stand(5, 1, 3), 0, 2, ""},
		{"above its share by its target while another is below", stand(4, 4, 2), 0, 0, ""},
		{"above its share, what is free is left alone", stand(5, 1, 3, free(1)), 1, 0, ""},
		{"above its share, what is free is fresh", stand(6, 0, 5, free(0)), 0, 2,
			"left to a node below its share: b"},
		{"above its target, nobody below", stand(4, 3, 3), 0, 0, ""},
		{"far above its share: four a beat", stand(30, 0, 0), 0, 4, ""},
		{"far above its share: an eighth a beat", stand(80, 0, 0), 0, 10, ""},
		{"far above its share: as many as allowed", limited(stand(80, 0, 0), 0, 70), 0, 53, ""},
		{"what moved by choice rests", resting(stand(9, 0, 0)), 0, 1, ""},
		{"manual: above its share", manual(stand(5, 1, 3)), 0, 0, ""},
		{"manual: at its cap", manual(stand(5, 1, 2)), 0, 0, ""},
		{"manual: above its cap", manual(stand(7, 1, 1)), 0, 2, ""},
		{"no more in a beat",
			limited(stand(0, 3, 3, free(0), Key{Name: "e"}, Key{Name: "d"}), 1, 0), 1, 0,
			"this node claims no more in one beat"},
		{"no more in a beat, but orphans",
			limited(stand(0, 3, 3, free(3), Key{Name: "e", Free: 3}, Key{Name: "d", Free: 3}), 1,
				0), 3, 0, ""},
		{"failed at it, others are to try",
			stand(0, 3, 3, Key{Name: "free", Free: 3, Failed: true}), 0, 0,
			"this node failed at it"},
		{"failed at it, and nobody else came",
			stand(0, 3, 3, Key{Name: "free", Free: 4, Failed: true}), 1, 0, ""},
		{"not working", leave(stand(2, 3, 3, free(9))), 0, 2, "this node is not working"},
		{"not working, what moved by choice goes as well", leave(resting(stand(6, 1, 2))), 0, 6,
			""},
		{"nothing there", stand(0, 0, 0), 0, 0, ""},
		{"not a member", Snapshot{Self: "x", Keys: []Key{free(9), {Name: "mine", Owner: "x"}}}, 0,
			1, "this node is not working"},
		{"alone", Snapshot{Self: "a", Nodes: []Node{{Name: "a", Working: true}},
			Keys: []Key{free(0), {Name: "e"}}}, 2, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Claims(test.s)
			var refusals string
			for _, r := range p.Refused {
				if r.Key == "free" {
					if refusals = r.Reason.String(); r.For != "" {
						refusals += ": " + r.For
					}
				}
			}
			if len(p.Claim) != test.claim || len(p.Release) != test.release ||
				refusals != test.refusals {
				t.Errorf("claims %v, releases %v, refuses for %q; want %d, %d, %q", p.Claim,
					p.Release, refusals, test.claim, test.release, test.refusals)
			}
		})
	}
}

func TestAlarmIsRaisedOnceAndEndsOnce(t *testing.T) {
	for _, test := range []struct {
		owned, threshold int
		alarmed          bool
		want             Alarm
	}{
		{10, 10, false, 0}, {11, 10, false, AlarmRaised}, {12, 10, true, 0}, {11, 10, true, 0},
		{10, 10, true, AlarmOver}, {0, 10, true, AlarmOver},
		{100, 0, false, 0}, {100, 0, true, AlarmOver}, // the threshold was taken away
	} {
		for _, working := range []bool{true, false} {
			s := stand(test.owned, 0, 0)
			s.Nodes[0].Alarm, s.Nodes[0].Working, s.Alarmed = test.threshold, working, test.alarmed
			if got := Claims(s).Alarm; got != test.want {
				t.Errorf("%d keys, threshold %d, alarmed %v, working %v: %v, want %v", test.owned,
					test.threshold, test.alarmed, working, got, test.want)
			}
		}
	}
}

func TestPlanSaysWhatItCountedWith(t *testing.T) {
	s := stand(5, 1, 4, Key{Name: "free"}) // K = 11, S = 3
	s.Nodes = append(s.Nodes, Node{Name: "drained"})
	if p := Claims(s); p.Owned != 5 || p.Target != 4 || p.Share != 4 || p.Cap != 6 {
		t.Errorf("X=%d T=%d share=%d N=%d, want 5 4 4 6", p.Owned, p.Target, p.Share, p.Cap)
	}
}

func TestReasonsAndAlarmsHaveWords(t *testing.T) {
	if got := fmt.Sprint(RefusedIdle, "; ", RefusedLimit, "; ", RefusedFailed, "; ", Reason(9),
		"; ", Alarm(0), "; ", AlarmRaised, "; ", Alarm(9)); got !=
		"this node is not working; this node claims no more in one beat; this node failed at it; Reason(9); unchanged; raised; Alarm(9)" {
		t.Error(got)
	}
}

// snapshots draws what a store may hold: names are unique, all else is open.
func snapshots(t *rapid.T) Snapshot {
	var s Snapshot
	names := []string{""}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		n := Node{Name: fmt.Sprint("node", i), Working: rapid.IntRange(0, 4).Draw(t, "working") > 0}
		n.Weight = rapid.SampledFrom([]int{0, 1, 1, 1, 2, 7, MaxWeight}).Draw(t, "weight")
		n.Tolerance = rapid.IntRange(0, 9).Draw(t, "n")
		s.Nodes = append(s.Nodes, n)
		names = append(names, n.Name)
	}
	names = append(names, "", "", "gone")
	for i := range rapid.IntRange(0, 50).Draw(t, "keys") {
		k := Key{
			Name: fmt.Sprint("key", i), Owner: rapid.SampledFrom(names).Draw(t, "owner"),
			Resting: rapid.IntRange(0, 3).Draw(t, "resting") == 0,
		}
		k.Free, k.Given = rapid.IntRange(0, 4).Draw(t, "free"), rapid.Bool().Draw(t, "given")
		if rapid.IntRange(0, 4).Draw(t, "a person gave it away") == 0 {
			k.Pinned = rapid.SampledFrom(names).Draw(t, "to")
		}
		s.Keys = append(s.Keys, k)
	}
	s.Self = s.Nodes[0].Name
	s.Limits.Rebalance = rapid.SampledFrom([]Rebalance{RebalanceAuto, RebalanceManual}).Draw(t,
		"rebalance")
	return s
}

func TestOrderOfRowsNeverChangesThePlan(t *testing.T) { rapid.Check(t, orderNeverMatters) }

func FuzzOrderOfRowsNeverChangesThePlan(f *testing.F) { f.Fuzz(rapid.MakeFuzz(orderNeverMatters)) }

func orderNeverMatters(t *rapid.T) {
	s := snapshots(t)
	want, budget := Claims(s), FaultBudget(s)
	s.Nodes = rapid.Permutation(s.Nodes).Draw(t, "nodes")
	s.Keys = rapid.Permutation(s.Keys).Draw(t, "keys")
	if diff := cmp.Diff(want, Claims(s)); diff != "" {
		t.Fatalf("another plan:\n%s", diff)
	}
	if diff := cmp.Diff(budget, FaultBudget(s)); diff != "" {
		t.Fatalf("another budget:\n%s", diff)
	}
}

// TestEqualSnapshotsNeverCollide: when all decide on the same snapshot, each unowned key is claimed
// by exactly one node, as few keys are given back as shares allow, whoever is below claims them,
// and then there is nothing left to do.
func TestEqualSnapshotsNeverCollide(t *testing.T) { rapid.Check(t, neverCollide) }

func neverCollide(t *rapid.T) {
	s := snapshots(t)
	s.Nodes[0].Working = true
	s.Limits = Limits{Release: len(s.Keys) + 1}
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.Free, k.Resting, k.Pinned = 0, false, ""; k.Owner == "gone" {
			k.Owner = ""
		}
	}
	fewest, unowned := fewestMoves(s), len(s.Keys)-owned(s)
	claimed, released := agree(t, &s)
	if claimed != unowned {
		t.Fatalf("of %d unowned keys %d are claimed", unowned, claimed)
	}
	if released != fewest {
		t.Fatalf("%d keys are given back, %d would do", released, fewest)
	}
	agree(t, &s)
	if owned(s) != len(s.Keys) {
		t.Fatalf("after two beats %d of %d keys are owned", owned(s), len(s.Keys))
	}
	if claimed, released := agree(t, &s); claimed+released > 0 {
		t.Fatalf("in the third beat %d keys are claimed and %d released", claimed, released)
	}
}

// TestKeysStayWherePeopleGaveThem: in a few beats every key that a person gave to a node that works
// is there, whatever its cap, every other has an owner, too, and then nothing is left to do.
func TestKeysStayWherePeopleGaveThem(t *testing.T) { rapid.Check(t, staysWhereGiven) }

func staysWhereGiven(t *rapid.T) {
	s := snapshots(t)
	s.Nodes[0].Working = true
	s.Limits.Release = len(s.Keys) + 1
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.Free, k.Resting = 0, false; k.Owner == "gone" {
			k.Owner = ""
		}
	}
	works := map[string]bool{}
	for _, n := range s.Nodes {
		works[n.Name] = n.Working
	}
	for range 4 {
		agree(t, &s)
	}
	for _, k := range s.Keys {
		if !works[k.Owner] || works[k.Pinned] && k.Owner != k.Pinned {
			t.Fatalf("%s is at %q, it was given to %q", k.Name, k.Owner, k.Pinned)
		}
	}
	if claimed, released := agree(t, &s); claimed+released > 0 {
		t.Fatalf("in the fifth beat %d keys are claimed and %d released", claimed, released)
	}
}

// agree lets all nodes do what they decide on the same snapshot.
func agree(t *rapid.T, s *Snapshot) (claimed, released int) {
	owner := map[string]string{}
	free := map[string]bool{}
	for _, k := range s.Keys {
		free[k.Name] = k.Owner == ""
	}
	for _, n := range s.Nodes {
		s.Self = n.Name
		p := Claims(*s)
		for _, key := range p.Claim {
			if other, twice := owner[key]; twice || !free[key] {
				t.Fatalf("%s claims %s, which %q has", n.Name, key, other)
			}
			owner[key] = n.Name
		}
		for _, key := range p.Release {
			if owner[key] = ""; n.Working {
				released++
			}
		}
		claimed += len(p.Claim)
	}
	for i := range s.Keys {
		if to, changed := owner[s.Keys[i].Name]; changed {
			s.Keys[i].Owner = to
		}
	}
	return claimed, released
}

func owned(s Snapshot) (n int) {
	for _, k := range s.Keys {
		if k.Owner != "" {
			n++
		}
	}
	return n
}

// fewestMoves is how many keys working nodes must give back until each owns its part by weight,
// rounded up or down: what they own above the part rounded down, but for one key each of as many as
// are rounded up.
func fewestMoves(s Snapshot) (moves int) {
	all, has := 0, map[string]int{}
	for _, n := range s.Nodes {
		if n.Working {
			all += max(n.Weight, 1)
		}
	}
	for _, k := range s.Keys {
		has[k.Owner]++
	}
	up, above := len(s.Keys), 0
	for _, n := range s.Nodes {
		if !n.Working {
			continue
		}
		part := len(s.Keys) * max(n.Weight, 1)
		up -= part / all
		if has[n.Name] > part/all {
			moves += has[n.Name] - part/all
			if part%all > 0 {
				above++
			}
		}
	}
	return moves - min(up, above)
}
