package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// pages are children for queue q.
func pages(names ...string) (list []task.Submission) {
	for _, name := range names {
		list = append(list, task.Submission{Queue: "q", Stage: name})
	}
	return list
}

// told reports one outcome and answers what became of it.
func (h *house) told(worker string, t task.Handout, o task.Outcome) task.Answer {
	h.t.Helper()
	got, err := h.d.Report(h.ctx, worker, []task.Report{{ID: t.ID, Token: t.Token, Outcome: o}})
	if err != nil {
		h.t.Fatal(err)
	}
	return got[0]
}

// parent hands out a new task.
func (h *house) parent(meta map[string]string) task.Handout {
	h.t.Helper()
	h.submit(task.Submission{Queue: "q", Stage: "split", Meta: meta})
	return h.one("w")
}

// join is an outcome that waits for children.
func join(end task.ChildrenEnd, children ...task.Submission) task.Outcome {
	return task.NextOn(task.Await{Children: end}, "join", nil).Spawning(children...)
}

func TestChildrenComeWithTheirParentsOutcome(t *testing.T) {
	for name, o := range map[string]task.Outcome{
		"done": task.Finish(nil), "next": task.Next("more", nil),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				x := h.parent(map[string]string{"customer": "7", "trace": "a"})
				children := pages("a", "b", "c")
				children[1].Queue = "other"
				children[2].Meta = map[string]string{"trace": "b"}
				got := h.told("w", x, o.Spawning(children...))
				if got.Status != task.Recorded || len(got.Spawned) != 3 {
					t.Fatalf("%+v", got)
				}
				for i, id := range got.Spawned {
					v := h.view(id)
					if v.Parent != x.ID || v.Stage != children[i].Stage ||
						v.Queue != children[i].Queue || !store.MayBeChildren(id.Batch) {
						t.Errorf("child %d: %+v", i, v)
					}
				}
				want := map[string]string{"customer": "7", "trace": "b"}
				if got := h.view(got.Spawned[2]).Meta; !maps.Equal(got, want) {
					t.Errorf("the child has %v, want %v", got, want)
				}
				if c := h.view(x.ID).Children; c == nil || c.Total != 3 || c.Open() != 3 {
					t.Errorf("the parent has %+v", c)
				}
				again := h.told("w", x, o.Spawning(children...))
				if again.Status != task.Repeated || !slices.Equal(again.Spawned, got.Spawned) {
					t.Errorf("repeated: %+v, first %+v", again, got)
				}
				if other := h.told("w", x, o.Spawning(pages("a")...)); other.Status != task.Stale ||
					other.Spawned != nil {
					t.Errorf("with other children: %+v", other)
				}
				if c := h.view(x.ID).Children; c.Total != 3 {
					t.Errorf("the parent has %+v now", c)
				}
				seen := map[task.ID]task.ID{}
				for range 2 {
					c := h.one("w")
					if name == "next" && c.ID == x.ID {
						c = h.one("w")
					}
					seen[c.ID] = c.Parent
				}
				if want := map[task.ID]task.ID{
					got.Spawned[0]: x.ID, got.Spawned[2]: x.ID,
				}; !maps.Equal(seen, want) {
					t.Errorf("children that were handed out, and their parents: %v, want %v", seen, want)
				}
			})
		})
	}
}

// A worker that waits gets a child at once, wherever its queue was before: nobody waits for a beat.
func TestChildrenBeginAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		got := make(chan task.Handout, 1)
		go func() {
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: "v", Queues: []string{"new"}, Limit: 1, Wait: time.Minute,
			})
			if err != nil || len(a.Tasks) != 1 {
				t.Errorf("%+v, %v", a, err)
			}
			got <- a.Tasks[0]
		}()
		synctest.Wait()
		began := time.Now()
		h.told("w", x, task.Finish(nil).Spawning(task.Submission{Queue: "new"}))
		if c := <-got; c.Parent != x.ID || time.Since(began) > 100*time.Millisecond {
			t.Errorf("after %v came %+v", time.Since(began), c)
		}
	})
}

func TestAParentGoesOnWhenItsChildrenHaveEnded(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, join(task.AllChildren, pages("a", "b", "c")...), task.Recorded)
		h.state(x.ID, task.Blocked)
		if a := h.view(x.ID).Awaits; a == nil || a.Signal != "" || a.First {
			t.Errorf("it awaits %+v", a)
		}
		list := h.hold("w", 10)
		if len(list) != 3 {
			t.Fatalf("%d children", len(list))
		}
		h.report("w", list[0], task.Finish(nil), task.Recorded)
		h.report("w", list[1], task.Fail(errHiccup), task.Recorded)
		if got := h.holdFor("w", 1, 10*time.Second); len(got) > 0 {
			t.Fatalf("%+v began while a child was open", got)
		}
		h.report("w", list[2], task.Finish(nil), task.Recorded)
		began := time.Now()
		want := &task.Children{Total: 3, Done: 2, Dead: 1}
		for try := 1; try <= 2; try++ {
			y := h.one("w")
			if diff := cmp.Diff(want, y.Children); diff != "" || y.ID != x.ID || y.Stage != "join" {
				t.Errorf("attempt %d: %+v %s", try, y, diff)
			}
			if try == 1 && time.Since(began) > 100*time.Millisecond {
				t.Errorf("it began after %v", time.Since(began))
			}
			x = y
			if try == 1 {
				h.report("w", y, task.RetryAfter(time.Hour, errHiccup), task.Recorded)
				time.Sleep(time.Hour)
			}
		}
		h.report("w", x, task.Next("last", nil), task.Recorded)
		if y := h.one("w"); y.Children != nil || y.Stage != "last" {
			t.Errorf("behind it: %+v", y)
		}
		n := 0
		for _, s := range h.view(x.ID).Steps {
			if s.Kind == task.KindWoken {
				n++
			}
		}
		if n != 1 {
			t.Errorf("it was woken %d times", n)
		}
	})
}

func TestTheFirstDeadChildEndsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, join(task.FirstDead, pages("a", "b", "c")...), task.Recorded)
		if a := h.view(x.ID).Awaits; a == nil || !a.First {
			t.Errorf("it awaits %+v", a)
		}
		list := h.hold("w", 2)
		h.report("w", list[0], task.Finish(nil), task.Recorded)
		h.state(x.ID, task.Blocked)
		h.report("w", list[1], task.Fail(errHiccup), task.Recorded)
		y := h.one("w")
		if y.ID != x.ID {
			y = h.one("w")
		}
		want := &task.Children{Total: 3, Done: 1, Dead: 1}
		if diff := cmp.Diff(want, y.Children); diff != "" {
			t.Error(diff)
		}
	})
}

// A stage that waits for children of which there are none goes on at once, and one whose time is
// over without them.
func TestAWaitForChildrenIsOverInTimeAndWithoutAny(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, join(task.AllChildren), task.Recorded)
		began := time.Now()
		y := h.one("w")
		took := time.Since(began)
		if y.Children == nil || *y.Children != (task.Children{}) || took > time.Second {
			t.Errorf("after %v: %+v", took, y)
		}
		late := task.NextOn(task.Await{
			Children: task.AllChildren, Timeout: time.Minute, Else: "late",
		}, "join", nil).Spawning(task.Submission{Queue: "nobody"})
		h.report("w", y, late, task.Recorded)
		time.Sleep(time.Minute)
		if y = h.one("w"); !y.TimedOut || y.Children != nil || y.Stage != "late" {
			t.Errorf("%+v", y)
		}
	})
}

// inserts is a store that counts the running rows that are written.
type inserts struct {
	contract.Store
	rows int
}

func (i *inserts) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	i.rows += len(r.Insert)
	return i.Store.Sync(ctx, r)
}

func lost(error) error { return store.ErrUnknown }

// The answer of the database was lost, and the node writes the same again: children come once, and
// their ids are answered. Nothing of them is there when the write did not happen.
func TestALostAnswerDoublesNoChild(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.door.AfterNext(settleReports, lost)
		got := h.told("w", x, task.Next("more", nil).Spawning(pages("a", "b")...))
		if len(got.Spawned) != 2 || h.view(got.Spawned[1]).Stage != "b" {
			t.Fatalf("%+v", got)
		}
		if c := h.view(x.ID).Children; c.Total != 2 {
			t.Errorf("%+v", c)
		}
		list := []task.Handout{h.one("w"), h.one("w"), h.one("w")}
		i := slices.IndexFunc(list, func(y task.Handout) bool { return y.ID == x.ID })
		x = list[i]
		h.door.AfterNext("Submit", lost)
		added := h.add(x, pages("c")...)
		if len(added) != 1 || added[0].Action != task.SubmittedCreated {
			t.Fatalf("%+v", added)
		}
		if c := h.view(x.ID).Children; c.Total != 3 {
			t.Errorf("%+v", c)
		}
	})
}

// add adds children to a task that w runs.
func (h *house) add(x task.Handout, children ...task.Submission) []task.Receipt {
	h.t.Helper()
	got, err := h.d.AddChildren(h.ctx, "w", x.ID, x.Token, children)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// Whoever has no right to report spawns nothing.
func TestAStaleReportSpawnsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		if err := h.d.Act(h.ctx, task.KindCancelled, "me", x.ID); err != nil {
			t.Fatal(err)
		}
		got := h.told("w", x, task.Finish(nil).Spawning(pages("a")...))
		if got.Status != task.Stale || got.Spawned != nil {
			t.Errorf("%+v", got)
		}
		y := h.parent(nil)
		forged := y
		forged.Token = strings.Replace(x.Token, ".", ".1", 1)
		if got = h.told("w", forged, task.Finish(nil).Spawning(pages("a")...)); got.Spawned != nil {
			t.Errorf("by a token that was never given out: %+v", got)
		}
		if got := h.hold("w", 10); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		if _, err := h.d.AddChildren(h.ctx, "w", x.ID, x.Token, pages("a")); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("added to a task that was cancelled: %v", err)
		}
		if _, err := h.d.AddChildren(h.ctx, "w", y.ID, x.Token, pages("a")); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("added by the token of another task: %v", err)
		}
		guessed, err := task.ParseToken(y.Token)
		if err != nil {
			t.Fatal(err)
		}
		guessed.Seal ^= 1
		_, err = h.d.AddChildren(h.ctx, "w", y.ID, guessed.String(), pages("a"))
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("added by a token that was guessed: %v", err)
		}
		h.report("w", y, task.Finish(nil), task.Recorded)
		if _, err := h.d.AddChildren(h.ctx, "w", y.ID, y.Token, pages("a")); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("added after its report: %v", err)
		}
		if c := h.view(y.ID).Children; c != nil {
			t.Errorf("%+v", c)
		}
	})
}

// What is wrong with children has its place, and nothing of the report is stored.
func TestWrongChildrenAreRefusedWithTheirPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		full := map[string]string{}
		for i := range limits.MaxMeta {
			full[fmt.Sprint("m", i)] = ""
		}
		x := h.parent(full)
		tooLarge := json.RawMessage(
			`"` + strings.Repeat("x", limits.DefaultContextLimit) + `"`)
		for want, bad := range map[string]task.Submission{
			"spawn[1].queue: ":                            {Queue: " "},
			"spawn[1].unique: children have none":         {Queue: "q", Unique: &task.Unique{Key: "k"}},
			"spawn[1].meta: 17 strings are too many":      {Queue: "q", Meta: map[string]string{"n": ""}},
			"spawn[1].context: ":                          {Queue: "q", Context: tooLarge},
			`spawn[1].delay: must be 0s to 876000h0m0s; `: {Queue: "q", Delay: -1, Timeout: -1},
		} {
			got := h.told("w", x, task.Finish(nil).Spawning(task.Submission{Queue: "q"}, bad))
			if got.Status != task.Invalid || !strings.HasPrefix(got.Detail, want) {
				t.Errorf("%+v, want %s", got, want)
			}
			want = strings.Replace(want, "spawn", "body.tasks", 1)
			_, err := h.d.AddChildren(h.ctx, "w", x.ID, x.Token,
				[]task.Submission{{Queue: "q"}, bad})
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("added: %v, want %s", err, want)
			}
		}
		h.state(x.ID, task.Running)
		if c := h.view(x.ID).Children; c != nil {
			t.Errorf("%+v", c)
		}
		many := task.Finish(nil).Spawning(make([]task.Submission, 6000)...)
		_, err := h.d.Report(h.ctx, "w", []task.Report{
			{ID: x.ID, Token: x.Token, Outcome: many}, {ID: x.ID, Token: x.Token, Outcome: many},
		})
		want := "body.reports[1].spawn: more than 10000 children in one call"
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		h.report("w", x, task.Finish(nil).Spawning(pages("a")...), task.Recorded)
	})
}

// Where keys go in order, a child of its parent's key would begin when that is over: who waits for
// such a child is told so.
func TestNobodyWaitsForAChildThatWaitsForHim(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(1)
		time.Sleep(25 * time.Second)
		h.keyed("a", 1)
		x := h.hold("w", 1)[0]
		same, other := task.Submission{Queue: "q", GroupKey: "a"}, task.Submission{Queue: "q"}
		wait := task.NextOn(task.Await{Children: task.AllChildren}, "s", nil)
		got := h.told("w", x, wait.Spawning(other, same))
		want := `spawn[1].group_key: keys of queue "q" go in order, so this child of key "a" begins `
		if got.Status != task.Invalid || !strings.HasPrefix(got.Detail, want) {
			t.Errorf("%+v", got)
		}
		h.report("w", x, wait.Spawning(other, task.Submission{Queue: "q", GroupKey: "b"},
			task.Submission{Queue: "r", GroupKey: "a"}), task.Recorded)
		h.keyed("c", 1)
		for _, y := range h.hold("w", 9) {
			if y.Parent == (task.ID{}) {
				h.report("w", y, task.Next("s", nil).Spawning(
					task.Submission{Queue: "q", GroupKey: "c"}), task.Recorded)
				return
			}
		}
		t.Error("the other task did not go out")
	})
}

// So is who waits for one that he submitted before, while he ran or in an earlier stage.
func TestNobodyWaitsForAChildOfBeforeThatWaitsForHim(t *testing.T) {
	for name, before := range map[string]func(h *house, x task.Handout, same task.Submission){
		"added": func(h *house, x task.Handout, same task.Submission) { h.add(x, same) },
		"of an earlier stage": func(h *house, x task.Handout, same task.Submission) {
			h.report("w", x, task.Next("t", nil).Spawning(same), task.Recorded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.perKey(1)
				time.Sleep(25 * time.Second)
				h.keyed("a", 1)
				x := h.hold("w", 1)[0]
				before(h, x, task.Submission{Queue: "q", GroupKey: "a"})
				if name != "added" {
					x = h.hold("w", 1)[0]
				}
				wait := task.NextOn(task.Await{Children: task.AllChildren}, "s", nil)
				got := h.told("w", x, wait)
				if got.Status != task.Invalid || !strings.HasPrefix(got.Detail, "await: child ") {
					t.Errorf("%+v", got)
				}
				h.report("w", x, task.Finish(nil), task.Recorded)
				if child := h.hold("w", 1); len(child) != 1 || child[0].Parent != x.ID {
					t.Errorf("the child did not go out behind its parent: %+v", child)
				}
			})
		})
	}
}

// Children are added while their parent runs: before its running row stands, which the node writes
// first, and behind it; also by a node that does not hold it. The parent waits for those, too.
func TestChildrenAreAddedByWhicheverNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &inserts{Store: model.New(time.Now)}
		a, b := openAs(t, l, "a"), openAs(t, l.Store, "b")
		defer a.close()
		defer b.close()
		x := a.parent(map[string]string{"customer": "7"})
		first := a.add(x, pages("a", "b")...)
		if l.rows != 1 {
			t.Errorf("%d running rows were written, want the task's", l.rows)
		}
		second := b.add(x, pages("c")...)
		third := a.add(x, pages("d")...)
		ids := map[task.ID]bool{}
		for _, r := range slices.Concat(first, second, third) {
			v := a.view(r.ID)
			ids[r.ID] = true
			if v.Parent != x.ID || v.Meta["customer"] != "7" || r.Action != task.SubmittedCreated {
				t.Errorf("%+v: %+v", r, v)
			}
		}
		if len(ids) != 4 {
			t.Errorf("%d ids", len(ids))
		}
		got := a.told("w", x, join(task.AllChildren, pages("e")...))
		if len(got.Spawned) != 1 || a.view(got.Spawned[0]).Stage != "e" {
			t.Errorf("%+v", got)
		}
		if again := b.told("w", x, join(task.AllChildren, pages("e")...)); again.Status !=
			task.Repeated || !slices.Equal(again.Spawned, got.Spawned) {
			t.Errorf("repeated: %+v", again)
		}
		for range 5 {
			y := b.one("w")
			b.report("w", y, task.Finish(nil), task.Recorded)
		}
		y := b.one("w")
		if diff := cmp.Diff(&task.Children{Total: 5, Done: 5}, y.Children); diff != "" {
			t.Error(diff)
		}
	})
}

// A key that is taken makes no child: its task is answered, and nobody waits for it.
func TestAChildWithAKnownKeyIsThatTask(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		known := h.submit(task.Submission{Queue: "nobody", Key: "k"})[0]
		x := h.parent(nil)
		added := h.add(x, task.Submission{Queue: "nobody", Key: "k"})
		if added[0].ID != known || !added[0].Existing || added[0].Action != task.SubmittedKept {
			t.Errorf("%+v", added)
		}
		o := join(task.AllChildren, task.Submission{Queue: "nobody", Key: "k"},
			task.Submission{Queue: "q", Key: "new"})
		got := h.told("w", x, o)
		if got.Spawned[0] != known || h.view(got.Spawned[1]).Parent != x.ID {
			t.Errorf("%+v", got)
		}
		if again := h.told("w", x, o); !slices.Equal(again.Spawned, got.Spawned) {
			t.Errorf("repeated: %+v", again)
		}
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		if y := h.one("w"); y.ID != x.ID || y.Children.Total != 1 {
			t.Errorf("%+v", y)
		}
	})
}
