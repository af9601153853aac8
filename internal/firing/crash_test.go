package firing

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// troubled is a story with all that is ever written about schedules: due times, overlaps of each
// kind, followers, notices, edits, runs by hand, a backfill. Whatever goes wrong on the way, it
// ends as it should.
func troubled(h *house) {
	h.insist(func(f *Firer) error { return put(h, f, "plain", "*/20 * * * * *") })
	h.insist(func(f *Firer) error {
		return put(h, f, "queue", "*/20 * * * * *", overlap(task.OverlapQueue))
	})
	h.insist(func(f *Firer) error {
		return put(h, f, "replace", "*/20 * * * * *", overlap(task.OverlapReplace))
	})
	noticed := func(e *store.ScheduleEdit) {
		e.Notices.On = []task.Notice{task.NoticeSubmitted, task.NoticeDone}
	}
	h.insist(func(f *Firer) error { return put(h, f, "lead", "*/20 * * * * *", noticed) })
	h.insist(func(f *Firer) error { return put(h, f, "follow", "", after("lead")) })
	h.insist(func(f *Firer) error {
		return put(h, f, "other", "7/20 * * * * *", atOnce(2, task.OverlapQueue))
	})
	h.insist(func(f *Firer) error { return put(h, f, "joined", "", after("follow,lead")) })
	h.insist(func(f *Firer) error { return put(h, f, "turns", "", after("lead,other")) })
	for _, name := range []string{"n1", "n2"} {
		h.work(name, "q", 3*time.Second, finish)
	}
	h.Pass(45 * time.Second)
	h.insist(func(f *Firer) error { _, err := f.Pause(h.T.Context(), "plain", true); return err })
	h.Pass(20 * time.Second)
	h.insist(func(f *Firer) error { _, err := f.Pause(h.T.Context(), "plain", false); return err })
	h.Pass(15 * time.Second)
	ask := store.BackfillRequest{From: h.us("09:50:00"), To: h.us("09:52:00"), Limit: 2}
	h.insist(func(f *Firer) error { _, err := f.Backfill(h.T.Context(), "plain", ask); return err })
	h.insist(func(f *Firer) error { _, err := f.RunNow(h.T.Context(), "lead"); return err })
	h.Pass(20 * time.Second)
	h.insist(func(f *Firer) error { return put(h, f, "lead", "0 0 1 1 *", noticed) })
	h.insist(func(f *Firer) error {
		return put(h, f, "queue", "0 0 1 1 *", overlap(task.OverlapQueue))
	})
	h.insist(func(f *Firer) error {
		return put(h, f, "replace", "0 0 1 1 *", overlap(task.OverlapReplace))
	})
	h.insist(func(f *Firer) error { return put(h, f, "plain", "0 0 1 1 *") })
	h.insist(func(f *Firer) error {
		return put(h, f, "other", "0 0 1 1 *", atOnce(2, task.OverlapQueue))
	})
	h.Pass(3 * time.Minute)
}

// insist asks nodes for something until it is done: one that fails or dies meanwhile may have done
// it.
func (h *house) insist(ask func(*Firer) error) {
	h.T.Helper()
	var err error
	for range 30 {
		if err = ask(h.firer()); err == nil {
			return
		}
		h.Pass(beat / 2)
	}
	h.T.Fatal(err)
}

func put(h *house, f *Firer, name, cron string, change ...func(*store.ScheduleEdit)) error {
	e := store.ScheduleEdit{Schedule: limits.DefaultSchedule(name)}
	e.Cron, e.Queue = cron, "q"
	e.Timeout = 10 * time.Second // so that what a dead node's worker had is soon another's
	for _, c := range change {
		c(&e)
	}
	_, err := f.Put(h.T.Context(), e)
	return err
}

// endsWell checks what the story leads to, beside what is always audited.
func endsWell(h *house) {
	h.T.Helper()
	if list, err := h.Store.OpenFires(
		h.T.Context(), store.OpenQuery{},
	); err != nil || len(list) > 0 {
		h.T.Errorf("open in the end: %v, %v", list, err)
	}
	lead, follow := fired(h, "lead"), fired(h, "follow")
	if !slices.EqualFunc(lead, follow, func(a, b store.Fire) bool { return a.At == b.At }) {
		h.T.Errorf("lead fired %v, follow %v", h.fires("lead"), h.fires("follow"))
	}
	joined := fired(h, "joined")
	if !slices.EqualFunc(lead, joined, func(a, b store.Fire) bool { return a.At == b.At }) {
		h.T.Errorf("lead fired %v, joined %v", h.fires("lead"), h.fires("joined"))
	}
	// several of one parent may be one turn's: after a crash they come at once
	if n := len(fired(h, "turns")); n < 1 || n > len(fired(h, "other")) {
		h.T.Errorf("turns %v of lead %v and other %v", h.fires("turns"), h.fires("lead"),
			h.fires("other"))
	}
	for _, kind := range []string{"schedule.submitted", "schedule.done"} {
		if texts := h.Events(kind); len(texts) != len(lead) ||
			len(slices.Compact(slices.Sorted(slices.Values(texts)))) != len(lead) {
			h.T.Errorf("%s was told of %d times, want each of %d once: %v", kind, len(texts),
				len(lead), texts)
		}
	}
	if n := len(h.rows("plain")); len(fired(h, "plain")) < n-2 || n < 8 {
		h.T.Errorf("plain: %v", h.fires("plain"))
	}
	for _, name := range []string{"queue", "replace"} {
		last := time.Time{}
		for _, f := range fired(h, name) {
			v, err := h.Store.Task(h.T.Context(), f.Task)
			h.Must(err)
			if len(v.Steps) == 0 {
				h.T.Errorf("%s at %s is not done", name, at(f.At))
				continue
			}
			begun, ended := v.Steps[0].Started, v.Steps[len(v.Steps)-1].Finished
			if !begun.IsZero() && begun.Before(last) {
				h.T.Errorf("%s at %s began before the one before it ended", name, at(f.At))
			}
			last = ended
		}
	}
}

// Each write fails once, in both ways.
func TestEveryWriteMayFail(t *testing.T) {
	first, step := story.Often(0, 4), story.Often(1, 16)
	for verb, writes := range map[string]int{"Fire": 16, closeFires: 12, "Append": 10,
		"ChangeSchedules": 9, "Act": 6} {
		for _, kind := range []fault.Fault{fault.Before, fault.After} {
			for n := first; n < writes; n += step {
				t.Run(fmt.Sprint(verb, kind, n), func(t *testing.T) {
					three(t, "2026-11-21 09:59:30", func(h *house) {
						h.Fail(fault.Nth(n, kind, verb))
						troubled(h)
						endsWell(h)
					})
				})
			}
		}
	}
}

// A node dies right before or right after each of its writes, and the others go on.
func TestNodeMayDieAtEveryWrite(t *testing.T) {
	first, step := story.Often(0, 7), story.Often(1, 16)
	for _, kind := range []fault.Fault{fault.Before, fault.After} {
		for n := first; n < 30; n += step {
			t.Run(fmt.Sprint(kind, n), func(t *testing.T) {
				inHouse(t, "2026-11-21 09:59:30", func(h *house) {
					h.CrashAt("n1", fault.Nth(n, kind, "Fire", closeFires, "Append",
						"ChangeSchedules", "Act"))
					h.Start("n1", "n2", "n3")
					troubled(h)
					endsWell(h)
				})
			})
		}
	}
}

// One call in four fails for a while, in either way, also those that only read.
func TestFaultsForAWhileAreOvercome(t *testing.T) {
	for seed := range uint64(story.Often(10, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			three(t, "2026-11-21 09:59:30", func(h *house) {
				plan := fault.Seeded(seed, 4)
				var calls atomic.Int64
				h.Fail(func(verb string) fault.Fault {
					if verb == "Beat" || verb == "AcquireAll" { // the node would be no member
						return fault.None
					}
					return plan(int(calls.Add(1)))
				})
				troubled(h)
				h.Fail(nil)
				h.Pass(time.Minute)
				endsWell(h)
			})
		})
	}
}

// The membership tells of an outage, once; the rounds that meet it with every beat say nothing.
func TestOutageIsLoggedOnceAndCaughtUp(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/10 * * * * *")
		h.Until("2026-11-21 10:00:05")
		h.Node("n1").Door.Cut()
		h.Until("2026-11-21 10:00:42")
		if n := h.Journal.Count("level=ERROR"); n != 1 {
			t.Errorf("the log has %d errors, want one", n)
		}
		h.Node("n1").Door.Restore()
		h.Until("2026-11-21 10:00:45")
		h.want("s", "09:59:40 fired", "09:59:50 fired", "10:00:00 fired", "10:00:10 fired",
			"10:00:20 fired", "10:00:30 fired", "10:00:40 fired")
	})
}
