package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

func TestSilentWorkerLosesItsTasksWithinItsLimitAndABeat(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("a", "1", 1)
		got := h.one("a")
		h.beat("a", "1", 1, got)
		begin := time.Now()
		again := h.one("b")
		if took := time.Since(begin); again.ID != id || took < limits.DefaultSilence ||
			took > limits.DefaultSilence+2*time.Second {
			t.Errorf("handed out again after %v", took)
		}
		if again.Attempt != 2 {
			t.Errorf("attempt %d: lost is charged", again.Attempt)
		}
		h.report("a", got, task.Finish(nil), task.Stale)
		h.report("b", again, task.Finish(nil), task.Recorded)
	})
}

// A slow store makes each round late. That excuses a worker once, not as long as it lasts.
func TestDeadWorkerIsFoundWhileEachRoundIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("a", "1", 1)
		got := h.one("a")
		h.door.Slow("Sync", 6*time.Second)
		h.beat("a", "1", 1, got)
		begin := time.Now()
		again := h.one("b")
		if took := time.Since(begin); again.ID != id || took < limits.DefaultSilence ||
			took > 2*limits.DefaultSilence+20*time.Second {
			t.Errorf("handed out again after %v", took)
		}
	})
}

func TestWorkerThatNeverBeatsKeepsItsTaskUntilTheHardLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		got := h.one("curl")
		time.Sleep(limits.DefaultTimeout - time.Minute)
		h.report("curl", got, task.Finish(nil), task.Recorded)
	})
}

func TestTokenIsGoodForItsOwnTaskOnly(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(3)
		a, b := h.one("a"), h.one("b")
		if a.Token == b.Token {
			t.Error("two tasks share their token")
		}
		for _, id := range []task.ID{b.ID, ids[2]} {
			stolen := a
			stolen.ID = id
			want := task.Stale
			h.report("a", stolen, task.Fail(errors.New("mine")), want)
		}
		h.report("b", b, task.Finish(nil), task.Recorded)
		h.state(ids[2], task.Ready)
	})
}

func TestHandOutMissingFromTwoBeatsIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		got := h.one("w")
		h.beat("w", "1", 5)
		h.beat("w", "1", 5, got) // it was only late
		h.beat("w", "1", 5)
		h.state(id, task.Running)
		h.beat("w", "1", 5)
		if again := h.one("w"); again.ID != id || again.Token == got.Token {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestBeatsBeforeTheAnswerIsWrittenSayNothingAboutIt(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		a, err := h.d.Hold(h.ctx, task.HoldRequest{Worker: "w", Queues: []string{"q"}})
		if err != nil || len(a.Tasks) != 1 {
			t.Fatal(a, err)
		}
		for range 3 {
			h.beat("w", "1", 5)
		}
		h.state(id, task.Running)
		h.report("w", a.Tasks[0], task.Finish(nil), task.Recorded)
	})
}

func TestRestartedWorkerLosesWhatItHadAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		h.one("w")
		h.beat("w", "2", 5)
		if again := h.one("w"); again.ID != id || again.Attempt != 2 {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestLeavingWorkerGivesItsTasksBackUncharged(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("a", "1", 5)
		got := h.one("a")
		if _, err := h.d.Beat(h.ctx,
			task.Beat{Worker: "a", Incarnation: "1",
				Tasks: []task.Held{{ID: got.ID, Token: got.Token}}, Leaving: true}); err != nil {
			t.Fatal(err)
		}
		if again := h.one("b"); again.ID != id || again.Attempt != 1 {
			t.Fatalf("again: %+v", again)
		}
	})
}

// A worker that stops gives its requests up. The server may read them after its goodbye.
func TestWhatAWorkerAskedBeforeItLeftDoesNotBringItBack(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		left := func(want task.WorkerState) {
			t.Helper()
			list, err := h.d.Workers(h.ctx)
			if err != nil || len(list) != 1 || list[0].State != want {
				t.Fatalf("workers: %+v, %v; want one that is %s", list, err, want)
			}
		}
		hold := task.HoldRequest{
			Worker: "a", Queues: []string{"q"}, Incarnation: "1", Wait: time.Minute,
		}
		h.beat("a", "1", 5)
		if _, err := h.d.Beat(
			h.ctx, task.Beat{Worker: "a", Incarnation: "1", Leaving: true},
		); err != nil {
			t.Fatal(err)
		}
		left(task.WorkerLeft)
		h.many(1)
		if got, err := h.d.Hold(h.ctx, hold); err != nil || len(got.Tasks) != 0 {
			t.Errorf("its hold: %+v, %v", got, err)
		}
		left(task.WorkerLeft)
		h.beat("a", "1", 5)
		left(task.WorkerLeft)
		hold.Incarnation = "2"
		if got, err := h.d.Hold(h.ctx, hold); err != nil || len(got.Tasks) != 1 {
			t.Errorf("the next start's hold: %+v, %v", got, err)
		}
		left(task.WorkerActive)
	})
}

func TestManySilentWorkersGetOneMoreLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(6)
		begin := time.Now()
		for i := range 6 {
			w := fmt.Sprint("w", i)
			h.beat(w, "1", 1)
			h.beat(w, "1", 1, h.one(w))
		}
		h.one("late")
		if took := time.Since(begin); took < 2*limits.DefaultSilence ||
			took > 2*limits.DefaultSilence+4*time.Second {
			t.Errorf("judged after %v, want two limits", took)
		}
	})
}

func TestNodeThatWasStoppedJudgesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		id := h.many(1)[0]
		h.beat("w", "1", 1)
		got := h.one("w")
		h.beat("w", "1", 1, got)
		h.d.turn(time.Now())
		time.Sleep(time.Second / 2)
		h.halt() // SIGSTOP: no round for a minute
		time.Sleep(time.Minute)
		h.d.turn(time.Now())
		h.state(id, task.Running)
		h.report("w", got, task.Finish(nil), task.Recorded)
		if err := h.d.Close(h.ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestTokenOutlivesItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := model.New(time.Now)
		h := open(t, store)
		old, young := h.many(1)[0], task.ID{}
		h.beat("w", "1", 9)
		first := h.one("w")
		time.Sleep(2500 * time.Millisecond) // a round writes it down
		young = h.many(1)[0]
		second := h.one("w")
		h.kill() // kill -9

		h2 := open(t, store)
		defer h2.close()
		h2.beat("w", "1", 9, first, second)
		got := h2.holdFor("x", 10, time.Second)
		if len(got) != 1 || got[0].ID != young {
			t.Fatalf("after the take-over %+v is handed out, want only the young %s", got, young)
		}
		if a := h2.beat("w", "1", 9, first, second); a[old] != task.ActionContinue ||
			a[young] != task.ActionStale {
			t.Errorf("the worker is told %v", a)
		}
		h2.report("w", second, task.Finish(nil), task.Stale)
		h2.report("w", first, task.Finish(nil), task.Recorded)
		h2.report("x", got[0], task.Finish(nil), task.Recorded)
		h2.counts(task.Counts{Done: 2})
		h2.empty()
	})
}

func TestWorkerThatDiesBeforeItsFirstBeatHereIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		a, err := h.d.Hold(h.ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Incarnation: "1",
		})
		if err != nil || len(a.Tasks) != 1 {
			t.Fatal(a, err)
		}
		a.Written()
		begin := time.Now()
		if again := h.one("x"); again.ID != id || again.Attempt != 2 ||
			time.Since(begin) > limits.DefaultSilence+2*time.Second {
			t.Fatalf("again after %v: %+v", time.Since(begin), again)
		}
	})
}

func TestDeadWorkersTaskIsFoundAfterATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := model.New(time.Now)
		h := open(t, store)
		id := h.many(1)[0]
		h.beat("w", "1", 9)
		h.one("w")
		time.Sleep(2500 * time.Millisecond)
		h.kill()
		h2 := open(t, store)
		defer h2.close()
		if again := h2.one("x"); again.ID != id || again.Attempt != 2 {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestTaskThatKillsItsProcessIsChargedAndFinallyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := model.New(time.Now)
		ids := []task.ID{}
		runs := 0
		for round := 0; ; round++ {
			if round > 20 {
				t.Fatal("it kills for ever")
			}
			h := open(t, store)
			if round == 0 {
				ids = h.many(3)
			}
			h.beat("n", fmt.Sprint(round), 9)
			got := h.holdFor("n", 9, time.Second)
			for round > 3 && len(got) > 1 {
				t.Fatalf("round %d: %d tasks of a span that killed three holders are out at once",
					round, len(got))
			}
			killed := false
			for len(got) > 0 && !killed {
				for _, x := range got {
					if killed = x.ID == ids[1]; killed {
						runs++
						break
					}
					h.report("n", x, task.Finish(nil), task.Recorded)
				}
				if !killed {
					got = h.holdFor("n", 9, time.Second)
				}
			}
			if !killed {
				h.state(ids[0], task.Done)
				h.state(ids[1], task.Dead)
				h.state(ids[2], task.Done)
				h.close()
				break
			}
			h.kill()
		}
		if runs < limits.DefaultMaxAttempts || runs > limits.DefaultMaxAttempts+1 {
			t.Errorf(
				"it killed %d processes; after the first, each is charged: want %d or one more",
				runs, limits.DefaultMaxAttempts,
			)
		}
	})
}

// A longer limit that its groups got while a worker was quiet already counts.
func TestSilenceIsThatOfTheMomentOfJudgement(t *testing.T) {
	jobs := &noJobs{}
	bubble(t, func(t *testing.T, h *house) {
		if _, err := h.d.Beat(h.ctx,
			task.Beat{Worker: "a", Incarnation: "1", Capacity: 1, Groups: []string{"g"}},
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Second)
		jobs.setSilence(30 * time.Second)
		time.Sleep(15 * time.Second)
		if len(jobs.silent()) != 0 {
			t.Errorf("away %v within its limit", jobs.silent())
		}
		time.Sleep(3 * time.Second)
		if len(jobs.silent()) != 1 {
			t.Errorf("away %v after its limit", jobs.silent())
		}
	}, func(c *Config) { c.Jobs = jobs })
}

func TestBeatThatSaysNonsenseIsRefusedAndChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		for where, spoil := range map[string]func(*task.Beat){
			"body.incarnation": func(b *task.Beat) { b.Incarnation = "" },
			"body.capacity":    func(b *task.Beat) { b.Capacity = 5.12345 },
			"body.load":        func(b *task.Beat) { b.Load.CPU = 2 },
			"body.labels":      func(b *task.Beat) { b.Labels = map[string]string{"": "x"} },
			"body.zone": func(b *task.Beat) {
				b.Zone = strings.Repeat("z", limits.MaxKey+1)
			},
			"body.groups[1]": func(b *task.Beat) { b.Groups = []string{"a", "A b"} },
			"body.groups[2]": func(b *task.Beat) { b.Groups = []string{"a", "b", "a"} },
			"query.wait":     func(b *task.Beat) { b.Wait = -1 },
		} {
			b := task.Beat{Worker: "w", Incarnation: "1", Capacity: 1}
			spoil(&b)
			_, err := h.d.Beat(h.ctx, b)
			var e *task.InvalidError
			if !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Location != where {
				t.Errorf("%s: %v", where, err)
			}
		}
		if list, err := h.d.Workers(h.ctx); err != nil || len(list) != 0 {
			t.Errorf("workers %+v, %v", list, err)
		}
	})
}

// poisoned is a node that holds a span of two tasks which three nodes died with: one is with a
// worker that was killed, the other waits for it.
func poisoned(t *testing.T) *house {
	t.Helper()
	store := model.New(time.Now)
	h := open(t, store)
	h.many(2)
	for range 3 {
		for _, got := range h.holdFor("x", 2, 10*time.Second) {
			h.report("x", got, task.Next("again", nil), task.Recorded)
		}
		h.kill()
		time.Sleep(11 * time.Second)
		h = open(t, store)
	}
	h.beat("x", "1", 2)
	got := h.holdFor("x", 2, time.Minute)
	if len(got) != 1 {
		t.Fatalf("%d tasks of a poisonous span are out at once", len(got))
	}
	return h
}

// The tasks of a poisonous span wait for the one that runs, not for room: while somebody waits for
// them the span stays here, and its worker's silence is counted in one piece.
func TestDeadWorkersTaskOfAPoisonousSpanIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := poisoned(t)
		defer func() { h.close() }()
		begin := time.Now()
		again := h.holdFor("a", 2, time.Minute)
		if took := time.Since(begin); len(again) != 1 ||
			took > limits.DefaultSilence+2*time.Second {
			t.Fatalf("handed out after %v: %+v", took, again)
		}
	})
}

// Somebody who asks now and then, and does not wait, makes the node take the span and give it back
// again and again.
func TestDeadWorkerIsNotExcusedByANodeThatTakesBackWhatItGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := poisoned(t)
		defer func() { h.close() }()
		begin := time.Now()
		var got []task.Handout
		for len(got) == 0 && time.Since(begin) < 10*time.Minute {
			time.Sleep(5 * time.Second)
			got = h.holdFor("a", 2, 100*time.Millisecond)
		}
		if took := time.Since(begin); len(got) != 1 || took > 2*limits.DefaultSilence {
			t.Fatalf("handed out after %v: %+v", took, got)
		}
	})
}

// A span that comes into memory without having been given back here is not excepted, though its
// token is the first, one more than none: what was heard of its worker before says nothing.
func TestWorkerOfASpanThatWasNeverGivenBackIsHeardForAFullLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 1)
		got := h.one("w")
		h.beat("w", "1", 1, got)
		time.Sleep(8 * time.Second) // a round writes it down
		h.d.mu.Lock()
		sp := h.d.mem.find(id).span
		if sp.Token != 1 || len(h.d.mem.gave) != 0 {
			t.Errorf("the span has token %d, and %d were given back", sp.Token, len(h.d.mem.gave))
		}
		sp.drop() // the rounds find it held by this node, and read it anew
		h.d.mu.Unlock()
		begin := time.Now()
		again := h.one("x")
		if took := time.Since(begin); again.ID != id || took < limits.DefaultSilence {
			t.Errorf("handed out again after %v, want a full limit from when it was found", took)
		}
	})
}
