package supervise_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// views are those of a node that supervises nothing.
func (h *house) views() *supervise.Views {
	return supervise.NewViews(supervise.NewClusterCache(h.Store, beat), func(string) string {
		return "n1"
	})
}

func TestAnyNodeSaysWhereReplicasAre(t *testing.T) {
	settled(t, 3, 4, 2, func(h *house) {
		v := h.views()
		list, err := v.Placements(h.T.Context(), store.PlacementQuery{Group: "g"})
		h.Must(err)
		stand := h.stand("g")
		if len(list) != len(stand) {
			t.Fatalf("%d placements of %d assignments", len(list), len(stand))
		}
		for i, a := range stand {
			if p := list[i]; p.Job != a.Job || p.Replica != a.Replica || p.Worker != a.Worker ||
				p.State != task.JobRunning || p.Since != a.Since {
				t.Errorf("placement %d is %+v of %+v", i, p, a)
			}
		}
		groups, err := v.Groups(h.T.Context())
		h.Must(err)
		if g := groups[0]; g.Wanted != 8 || g.Running != 8 ||
			g.Pending+g.Starting+g.Failed+g.Moving+g.Ending != 0 || g.Supervisor != "n1" {
			t.Errorf("group %+v", g)
		}
		if b := groups[0].Budget; b.Workers != 1 || !b.Exact ||
			!strings.Contains(b.Text, "any one worker can die") {
			t.Errorf("budget %+v", b)
		}
	})
}

func TestPendingReplicasSayWhy(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 3, replicas(2))
		h.Start("n1")
		h.worker("w0", 2, "n1")
		h.Await(20*beat, "what has room runs", h.allRun("g", 2))
		for _, c := range []struct {
			change func(*task.Group)
			code   string
		}{
			{func(*task.Group) {}, "capacity"},
			{paused, "paused"},
			{func(g *task.Group) {
				g.Paused, g.Selector = false, map[string]string{"kind": "gpu"}
			}, "selector"},
		} {
			h.configure("g", c.change)
			list, err := h.views().Placements(h.T.Context(), store.PlacementQuery{
				Group: "g", State: task.JobPending,
			})
			h.Must(err)
			if len(list) != 4 {
				t.Fatalf("%d are pending, want 4: %+v", len(list), list)
			}
			if !slices.ContainsFunc(list, func(p store.Placement) bool {
				return p.Reason.Code == c.code
			}) {
				t.Errorf("want %q in %+v", c.code, list)
			}
			for _, p := range list {
				if p.Worker != "" || p.Reason.Text == "" {
					t.Errorf("%+v says not why", p)
				}
			}
		}
	})
}

func TestPagesOfPlacementsAreTheWholeList(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 7, replicas(2))
		h.Start("n1")
		h.worker("w0", 5, "n1")
		h.worker("w1", 3, "n1")
		h.Await(20*beat, "what has room runs", h.allRun("g", 8))
		v := h.views()
		all, err := v.Placements(h.T.Context(), store.PlacementQuery{Group: "g"})
		h.Must(err)
		if len(all) != 14 {
			t.Fatalf("%d replicas, want 14", len(all))
		}
		for limit := 1; limit < 6; limit++ {
			var pages []store.Placement
			q := store.PlacementQuery{Group: "g", Limit: limit}
			for {
				page, err := v.Placements(h.T.Context(), q)
				h.Must(err)
				if len(page) == 0 {
					break
				}
				pages, q.After = append(pages, page...), page[len(page)-1].Key()
			}
			if !slices.Equal(pages, all) {
				t.Errorf("pages of %d: %+v\nwant %+v", limit, pages, all)
			}
		}
		some, err := v.Placements(h.T.Context(), store.PlacementQuery{Group: "g", Worker: "w1"})
		h.Must(err)
		one, err := v.Placements(h.T.Context(), store.PlacementQuery{Group: "g", Job: "j0003"})
		h.Must(err)
		if len(some) != 3 || len(one) != 2 {
			t.Errorf("%d at w1, want 3; %d of j0003, want 2", len(some), len(one))
		}
	})
}

func TestPagesOfJobsAreTheWholeList(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 5)
		v := h.views()
		after, n := "", 0
		for {
			page, err := v.Jobs(h.T.Context(), "g", after, 2)
			h.Must(err)
			if len(page) == 0 {
				break
			}
			n, after = n+len(page), page[len(page)-1].Name
		}
		if n != 5 || after != "j0004" {
			t.Errorf("%d jobs up to %s", n, after)
		}
	})
}

func TestWhatNobodyKnowsIsNotFound(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 1)
		v := h.views()
		for name, call := range map[string]func() error{
			"placements": func() error {
				_, err := v.Placements(h.T.Context(), store.PlacementQuery{Group: "x"})
				return err
			},
			"jobs": func() error { _, err := v.Jobs(h.T.Context(), "x", "", 1); return err },
			"plan": func() error {
				_, err := v.Plan(h.T.Context(), "x", store.WhatIf{})
				return err
			},
			"explain": func() error {
				_, err := v.Explain(h.T.Context(), "x", "j0000")
				return err
			},
			"job": func() error { _, err := v.Explain(h.T.Context(), "g", "x"); return err },
		} {
			if err := call(); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v, want ErrNotFound", name, err)
			}
		}
		_, err := v.Plan(h.T.Context(), "g", store.WhatIf{
			Remove: []string{"w0"}, Drain: []string{"w1"},
		})
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 2 ||
			invalid.Fields[0].Location != "body.drain_workers[0]" {
			t.Errorf("plan with unknown workers: %v", err)
		}
		if p, err := v.DrainPrice(h.T.Context(), "w0", store.Drain{}, nil); p.Text != "" ||
			p.Jobs+p.Moves+p.Stays != 0 || err != nil {
			t.Errorf("drain of an unknown worker: %+v, %v", p, err)
		}
	})
}

func TestExplanationSpeaksOfEachReplicaAndWorker(t *testing.T) {
	settled(t, 3, 4, 2, func(h *house) {
		e, err := h.views().Explain(h.T.Context(), "g", "j0001")
		h.Must(err)
		if len(e.Replicas) != 2 || len(e.Candidates) != 3 {
			t.Fatalf("%+v", e)
		}
		for _, r := range e.Replicas {
			if r.Worker == "" || r.State != task.JobRunning || r.Reason.Text == "" {
				t.Errorf("replica %+v", r)
			}
		}
		if c := e.Candidates[0]; !c.Fits || c.Capacity != 60*task.Unit || c.Score <= 0 {
			t.Errorf("best candidate %+v", c)
		}
	})
}

func TestPlanSaysWhatThenHappens(t *testing.T) {
	settled(t, 4, 12, 2, func(h *house) {
		v := h.views()
		died, err := v.Plan(h.T.Context(), "g", store.WhatIf{Remove: []string{"w1"}})
		h.Must(err)
		lost := h.spread("g")["w1"]
		if got := len(died.Start) - died.Moves; got != lost || died.Before["w1"] != float64(lost) {
			t.Errorf("a death starts %d anew, want %d: %+v", got, lost, died)
		}
		if _, there := died.After["w1"]; there || died.Budget.Workers != 1 {
			t.Errorf("after a death: loads %v, budget %+v", died.After, died.Budget)
		}
		drained, err := v.Plan(h.T.Context(), "g", store.WhatIf{Drain: []string{"w1"}})
		h.Must(err)
		if drained.After["w1"] != 0 || drained.Moves != len(drained.Start) || drained.Rounds < 1 {
			t.Errorf("a drain: %+v", drained)
		}
		joined, err := v.Plan(h.T.Context(), "g", store.WhatIf{
			Add: []store.NewSeats{{Capacity: 60 * task.Unit, Count: 2}},
		})
		h.Must(err)
		if joined.After["new-1"] != 4 || joined.After["new-2"] != 4 || joined.Moves != 8 {
			t.Errorf("two join: loads %v, %d moves", joined.After, joined.Moves)
		}
		more, err := v.Plan(h.T.Context(), "g", store.WhatIf{Replicas: 5})
		h.Must(err)
		if len(more.Start) != 24 || len(more.Pending) != 12 || more.Pending[0].Reason.Text == "" {
			t.Errorf("five replicas: %d start, %d wait", len(more.Start), len(more.Pending))
		}
		fewer, err := v.Plan(h.T.Context(), "g", store.WhatIf{
			Jobs: &[]task.Job{{Name: "j0000", Load: task.Unit}},
		})
		h.Must(err)
		if len(fewer.Stop) != 22 || len(fewer.Start) != 0 {
			t.Errorf("one job: %d start, %d stop", len(fewer.Start), len(fewer.Stop))
		}
		if !h.allRun("g", 24)() {
			t.Error("thinking changed something")
		}
	})
}

// What a plan foretells is what happens.
func TestPlanComesTrue(t *testing.T) {
	settled(t, 4, 13, 2, func(h *house) {
		planned, err := h.views().Plan(h.T.Context(), "g", store.WhatIf{Remove: []string{"w2"}})
		h.Must(err)
		h.workers["w2"].kill()
		h.Await(time.Minute, "loads are those of the plan", func() bool {
			for worker, n := range h.spread("g") {
				if planned.After[worker] != float64(n) {
					return false
				}
			}
			return h.allRun("g", 26)()
		})
	})
}

func TestDrainSaysWhatItDoes(t *testing.T) {
	settled(t, 3, 6, 1, func(h *house) {
		p, err := h.views().DrainPrice(h.T.Context(), "w1", store.Drain{}, nil)
		h.Must(err)
		if p.Moves != 2 || p.Jobs != 2 || p.Stays != 0 || p.Load != 0 || len(p.Breaks) != 0 {
			t.Errorf("it costs %+v", p)
		}
		text := p.Text
		if want := "Group g: 2 replicas move to other workers in 1 round; then any one worker can die"; !strings.HasPrefix(text, want) {
			t.Errorf("it says %q, want %q", text, want)
		}
	})
	settled(t, 2, 6, 2, func(h *house) {
		p, err := h.views().DrainPrice(h.T.Context(), "w1", store.Drain{}, nil)
		h.Must(err)
		if !strings.Contains(p.Text, "6 stay, because there is no other place") ||
			p.Stays != 6 || p.Lacks != 6*task.Unit || !slices.Equal(p.Breaks, []string{"g"}) {
			t.Errorf("it costs %+v", p)
		}
	})
}

// TestGroupsOnCommonWorkersHaveOneBudget: of two workers of six units that serve two groups of four
// jobs each one cannot be spared, though each group alone could spare it.
func TestGroupsOnCommonWorkersHaveOneBudget(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Start("n1")
		for _, name := range []string{"g", "h"} {
			h.group(name, 4)
		}
		h.group("idle", 0)
		for _, name := range []string{"w0", "w1"} {
			h.worker(name, 6, "n1").serve("g", "h", "idle")
		}
		h.group("apart", 1)
		h.worker("w2", 6, "n1").serve("apart")
		h.Await(30*beat, "all run", func() bool { return len(h.running()) == 9 })
		h.Pass(3 * beat)
		v := h.views()
		check := func(when string, want map[string]int) {
			t.Helper()
			groups, err := v.Groups(h.T.Context())
			h.Must(err)
			for _, g := range groups {
				alone, err := v.Group(h.T.Context(), g.Name)
				h.Must(err)
				if g.Budget.Workers != want[g.Name] || !g.Budget.Exact ||
					alone.Budget.Text != g.Budget.Text {
					t.Errorf("%s: budget of %s is %+v, asked alone %+v; want %d", when, g.Name,
						g.Budget, alone.Budget, want[g.Name])
				}
				shared := g.Name == "g" || g.Name == "h"
				if shared &&
					(!slices.Equal(g.Budget.Groups, []string{"g", "h"}) ||
						len(g.Budget.Breaking) != g.Budget.Workers+1) {
					t.Errorf("%s: what breaks %s is said as %+v", when, g.Name, g.Budget)
				}
			}
		}
		lists, err := v.Demands(h.T.Context())
		h.Must(err)
		var groups []string // those on common workers are one list, of one demand each
		for _, list := range lists {
			for _, d := range list {
				groups = append(groups, d.Group)
				if want := map[string]int{"g": 2, "h": 2, "idle": 2, "apart": 1}[d.Group]; want !=
					len(d.Places) || d.Places[0].Room != 6*place.Unit {
					t.Errorf("%s asks of %+v", d.Group, d.Places)
				}
			}
			groups = append(groups, ";")
		}
		if text := strings.Join(groups, " "); text != "apart ; g h idle ;" {
			t.Errorf("demands of %s", text)
		}
		check("two of six", map[string]int{"g": 0, "h": 0, "idle": 2, "apart": 0})
		planned, err := v.Plan(h.T.Context(), "g", store.WhatIf{
			Jobs: &[]task.Job{{Name: "j0000", Load: task.Unit}},
		})
		h.Must(err)
		if b := planned.Budget; b.Workers != 1 || !slices.Equal(b.Breaking, []string{"w0", "w1"}) {
			t.Errorf("one job fewer than are too many: %+v", b)
		}
		drained, err := v.Plan(h.T.Context(), "h", store.WhatIf{Drain: []string{"w1"}})
		h.Must(err)
		if b := drained.Budget; b.Workers != 0 ||
			!strings.Contains(b.Text, "not even the workers that there are") ||
			!strings.Contains(b.Text, "2 replicas of g, h") {
			t.Errorf("one of two drains: %+v", b)
		}
		h.jobs("h", 2)
		h.Await(30*beat, "two have ended", func() bool { return len(h.running()) == 7 })
		h.Pass(3 * beat)
		check("six units in all", map[string]int{"g": 1, "h": 1, "idle": 2, "apart": 0})
	})
}
