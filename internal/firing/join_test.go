package firing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

func mode(m task.AfterMode) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.AfterMode = m }
}

func on(o task.AfterOn) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.AfterOn = o }
}

// parentsText says which fires a row takes.
func parentsText(f *store.Fire) string {
	var list []string
	for _, k := range f.Parents {
		list = append(list, k.Schedule+"@"+at(k.At))
	}
	return strings.Join(list, " ")
}

// wantTurns compares the turns that a schedule has taken, as "15:04:05 outcome: parents".
func (h *house) wantTurns(name string, want ...string) {
	h.T.Helper()
	var got []string
	for _, f := range h.rows(name) {
		got = append(got, at(f.At)+" "+string(f.Outcome)+": "+parentsText(&f))
	}
	if !slices.Equal(got, want) {
		h.T.Fatalf("%s: turns\n%s\nwant\n%s", name, strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

func TestHowATaskMustHaveEnded(t *testing.T) {
	for _, c := range []struct {
		kind                task.Kind
		done, failed, ended bool
	}{
		{task.KindDone, true, false, true}, {task.KindFail, false, true, true},
		{task.KindRetry, false, true, true}, {task.KindTimeout, false, true, true},
		{task.KindLost, false, true, true}, {task.KindCancelled, false, false, true},
		{task.KindRemoved, false, false, true},
	} {
		for on, want := range map[task.AfterOn]bool{
			task.AfterDone: c.done, task.AfterFailed: c.failed, task.AfterEnded: c.ended,
		} {
			if got := suits(on, c.kind); got != want {
				t.Errorf("%s suits %s: %v, want %v", c.kind, on, got, want)
			}
		}
	}
}

func TestWhichSchedulesAreRelated(t *testing.T) {
	known := map[string]*store.Schedule{}
	for name, s := range map[string]task.Schedule{
		"r": {}, "s": {}, "a": {After: "r"}, "b": {After: "r"}, "c": {After: "a,b"},
		"x": {After: "r,s"}, "any": {After: "r,s", AfterMode: task.AfterAny},
		"below-x": {After: "x"}, "below-a": {After: "a"},
	} {
		if s.AfterMode == "" {
			s.AfterMode = task.AfterAll
		}
		known[name] = &store.Schedule{Schedule: s}
	}
	for _, c := range []struct{ names, want string }{
		{"r,s", "r s"}, {"a,b", "a+b"}, {"r,a", "r+a"}, {"a,s", "a s"}, {"a,s,b", "s a+b"},
		{"below-a,c", "below-a+c"}, {"x,a", "x a"}, {"x,below-x", "x+below-x"},
		{"any,s", "any+s"}, {"r,s,any", "s+r+any"}, {"none,r", "none r"},
	} {
		var got []string
		s := task.Schedule{After: c.names}
		for _, g := range relate(s.Parents(), known, map[string]map[string]bool{}) {
			got = append(got, strings.Join(g, "+"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.names, strings.Join(got, " "), c.want)
		}
	}
}

// What one run fires belongs together, however long each of it takes.
func TestDiamondIsJoinedByItsRun(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("root", "* * * * *")
		h.put("quick", "", after("root"), inQueue("quick"))
		h.put("slow", "", after("root"), inQueue("slow"))
		h.put("end", "", after("slow,quick"), inQueue("end"))
		h.work("n1", "q", time.Second, finish)
		h.work("n2", "quick", time.Second, finish)
		for _, n := range []string{"n1", "n2", "n3"} {
			h.work(n, "slow", 100*time.Second, finish)
		}
		h.work("n3", "end", time.Second, finish)
		h.Until("2026-11-21 10:01:30")
		h.want("quick", "10:00:00 fired", "10:01:00 fired")
		h.want("end")
		h.put("root", "0 0 1 1 *")
		h.Until("2026-11-21 10:05:00")
		h.wantTurns("end", "10:00:00 fired: slow@10:00:00 quick@10:00:00",
			"10:01:00 fired: slow@10:01:00 quick@10:01:00")
		root := store.FireKey{Schedule: "root", At: h.us("10:00:00")}
		run, err := h.Store.RunFires(h.T.Context(), root, 100)
		h.Must(err)
		var names []string
		for i := range run {
			names = append(names, run[i].Schedule)
		}
		if want := []string{"end", "quick", "root", "slow"}; !slices.Equal(names, want) {
			t.Errorf("the run is %v, want %v", names, want)
		}
	})
}

// Schedules that have nothing to do with each other are joined once each has come since the last
// turn; what came of one of them twice meanwhile counts once, by its newest.
func TestSchedulesOfDifferentTimesAreJoinedTurnByTurn(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("often", "* * * * *")
		h.put("seldom", "30 */3 * * * *", inQueue("seldom"))
		h.put("end", "", after("often,seldom"), inQueue("end"))
		h.work("n1", "q", time.Second, finish)
		h.work("n2", "seldom", time.Second, finish)
		h.Until("2026-11-21 10:06:50")
		h.wantTurns("end", "10:00:30 fired: often@10:00:00 seldom@10:00:30",
			"10:03:30 fired: often@10:03:00 seldom@10:03:30",
			"10:06:30 fired: often@10:06:00 seldom@10:06:30")
		if f := h.rows("end")[1]; f.Run != (store.FireKey{Schedule: "seldom", At: h.us("10:03:30")}) {
			t.Errorf("its run began with %+v", f.Run)
		}
	})
}

// Schedules that are due at the same times wait for each other's fires of that time.
func TestSameDueTimesBelongTogether(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("a", "* * * * *")
		h.put("b", "* * * * *", inQueue("slow"))
		h.put("end", "", after("a,b"), inQueue("end"))
		h.work("n1", "q", time.Second, finish)
		for _, n := range []string{"n1", "n2", "n3"} {
			h.work(n, "slow", 90*time.Second, finish)
		}
		h.Until("2026-11-21 10:02:20")
		h.wantTurns("end", "10:00:00 fired: a@10:00:00 b@10:00:00")
		h.Until("2026-11-21 10:03:40")
		h.wantTurns("end", "10:00:00 fired: a@10:00:00 b@10:00:00",
			"10:01:00 fired: a@10:01:00 b@10:01:00", "10:02:00 fired: a@10:02:00 b@10:02:00")
		// one more of a alone leaves the pairs as they are
		_, err := h.firer().RunNow(h.T.Context(), "a")
		h.Must(err)
		h.Until("2026-11-21 10:04:50")
		h.wantTurns("end", "10:00:00 fired: a@10:00:00 b@10:00:00",
			"10:01:00 fired: a@10:01:00 b@10:01:00", "10:02:00 fired: a@10:02:00 b@10:02:00",
			"10:03:00 fired: a@10:03:00 b@10:03:00")
	})
}

// A parent that failed makes the turn a skipped one, and its replay makes it a fired one, once.
func TestTurnOfAFailedParentIsFiredAfterItsReplay(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("a", "* * * * *")
		h.put("b", "30 * * * * *", inQueue("ill"))
		h.put("end", "", after("a,b"), inQueue("end"))
		h.put("alarm", "", after("a,b"), inQueue("end"), mode(task.AfterAny), on(task.AfterFailed))
		h.put("always", "", after("a,b"), inQueue("end"), on(task.AfterEnded))
		var ill atomic.Bool
		ill.Store(true)
		h.work("n1", "q", time.Second, finish)
		h.work("n2", "ill", time.Second, func(task.Handout) task.Outcome {
			if ill.Load() {
				return task.Fail(errors.New("no disk"))
			}
			return task.Finish(nil)
		})
		h.Until("2026-11-21 10:00:50")
		// when they came to be followed b had been due at 9:59:30 already, and a not
		h.wantTurns("end", "10:00:30 skipped: a@10:00:00 b@10:00:30")
		if r := h.rows("end")[0].Reason; r != "the task of schedule b for 2026-11-21T10:00:30Z is dead: no disk" {
			t.Errorf("reason %q", r)
		}
		h.wantTurns("alarm", "10:00:00 skipped: a@10:00:00", "10:00:30 fired: b@10:00:30")
		h.wantTurns("always", "10:00:30 fired: a@10:00:00 b@10:00:30")
		ill.Store(false)
		for _, f := range h.rows("b") {
			h.Must(h.Live().Tasks.Act(h.T.Context(), task.KindReplayed, "test", f.Task))
		}
		h.Until("2026-11-21 10:00:58")
		h.wantTurns("end", "10:00:30 fired: a@10:00:00 b@10:00:30")
		h.wantTurns("always", "10:00:30 fired: a@10:00:00 b@10:00:30")
		h.wantTurns("alarm", "10:00:00 skipped: a@10:00:00", "10:00:30 fired: b@10:00:30")
		h.Until("2026-11-21 10:01:50")
		h.wantTurns("end", "10:00:30 fired: a@10:00:00 b@10:00:30",
			"10:01:30 fired: a@10:01:00 b@10:01:30")
	})
}

func TestAnyOfSeveralFiresOnceForEachDueTime(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("root", "* * * * *")
		h.put("bad", "", after("root"), inQueue("bad"))
		h.put("good", "", after("root"), inQueue("good"))
		h.put("end", "", after("bad,good"), inQueue("end"), mode(task.AfterAny))
		h.work("n1", "q", time.Second, finish)
		h.work("n2", "good", 10*time.Second, finish)
		h.work("n3", "bad", time.Second, func(task.Handout) task.Outcome {
			return task.Fail(errors.New("no disk"))
		})
		h.Until("2026-11-21 10:00:08")
		h.want("end") // one is dead, and the other may still end well
		h.Until("2026-11-21 10:01:30")
		h.wantTurns("end", "10:00:00 fired: good@10:00:00", "10:01:00 fired: good@10:01:00")
	})
}

func TestDelayAfterTheLastOfSeveral(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("a", "* * * * *")
		h.put("b", "* * * * *", inQueue("b"))
		delay := func(e *store.ScheduleEdit) { e.AfterDelay = 20 * time.Second }
		h.put("one", "", after("a"), delay, inQueue("one"))
		h.put("end", "", after("a,b"), delay, inQueue("end"))
		h.work("n1", "q", time.Second, finish)
		h.work("n1", "b", 5*time.Second, finish)
		h.Until("2026-11-21 10:00:30")
		for name, last := range map[string]string{"one": "10:00:01", "end": "10:00:05"} {
			v, err := h.Store.Task(h.T.Context(), h.rows(name)[0].Task)
			h.Must(err)
			if wait := v.Due.Sub(time.UnixMicro(h.us(last))); wait < 20*time.Second ||
				wait > 21*time.Second {
				t.Errorf("%s is due %v after the last ended, with a delay of 20s", name, wait)
			}
		}
	})
}

// Both parents end at once, and two nodes look after one each: the turn is taken once, whichever
// write comes first.
func TestTwoNodesThatJoinAtOnceTakeATurnOnce(t *testing.T) {
	for n := range story.Often(6, 2) {
		for _, kind := range []fault.Fault{fault.None, fault.Before, fault.After} {
			t.Run(fmt.Sprint(n, kind), func(t *testing.T) {
				three(t, "2026-11-21 09:59:30", func(h *house) {
					h.put("a", "*/10 * * * * *")
					h.put("b", "5/10 * * * * *", inQueue("b"))
					h.put("end", "", after("a,b"), inQueue("end"))
					h.work("n1", "q", 7*time.Second, finish)
					h.work("n2", "b", 2*time.Second, finish)
					h.crowded(uint64(n), fault.Nth(20+5*n, kind, "Fire", closeFires), "a", "b",
						"end")
					h.Until("2026-11-21 10:00:33")
					h.put("a", "0 0 1 1 *")
					h.put("b", "0 0 1 1 *", inQueue("b"))
					h.Pass(30 * time.Second)
					h.Fail(nil)
					taken := map[store.FireKey]int{}
					for _, f := range fired(h, "end") {
						for _, k := range f.Parents {
							taken[k]++
						}
					}
					if len(taken) < 8 {
						h.T.Errorf("taken are %v", taken)
					}
				})
			})
		}
	}
}

// What waits for one that is followed no more is not fired; with others the turns go on.
func TestParentsThatAreEditedMeanwhile(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("a", "* * * * *")
		h.put("b", "30 */5 * * * *", inQueue("b"))
		h.put("c", "45 * * * * *", inQueue("c"))
		h.put("end", "", after("a,b"), inQueue("end"))
		h.work("n1", "q", time.Second, finish)
		h.work("n2", "b", time.Second, finish)
		h.work("n3", "c", time.Second, finish)
		h.Until("2026-11-21 10:01:10")
		h.wantTurns("end", "10:00:30 fired: a@10:00:00 b@10:00:30")
		h.put("end", "", after("a,c"), inQueue("end"))
		h.Until("2026-11-21 10:02:50")
		h.wantTurns("end", "10:00:30 fired: a@10:00:00 b@10:00:30",
			"10:01:45 fired: a@10:01:00 c@10:01:45", "10:02:45 fired: a@10:02:00 c@10:02:45")
		if err := h.firer().Delete(h.T.Context(), "c"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("delete of one that is followed: %v", err)
		}
		h.deleted = true
		h.Must(h.firer().Delete(h.T.Context(), "b"))
	})
}
