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
	h.pass(45 * time.Second)
	h.insist(func(f *Firer) error { _, err := f.Pause(h.t.Context(), "plain", true); return err })
	h.pass(20 * time.Second)
	h.insist(func(f *Firer) error { _, err := f.Pause(h.t.Context(), "plain", false); return err })
	h.pass(15 * time.Second)
	ask := store.BackfillRequest{From: h.us("09:50:00"), To: h.us("09:52:00"), Limit: 2}
	h.insist(func(f *Firer) error { _, err := f.Backfill(h.t.Context(), "plain", ask); return err })
	h.insist(func(f *Firer) error { _, err := f.RunNow(h.t.Context(), "lead"); return err })
	h.pass(20 * time.Second)
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
	h.pass(3 * time.Minute)
}

// insist asks nodes for something until it is done: one that fails or dies meanwhile may have done
// it.
func (h *house) insist(ask func(*Firer) error) {
	h.t.Helper()
	var err error
	for range 30 {
		if err = ask(h.live().firer); err == nil {
			return
		}
		h.pass(beat / 2)
	}
	h.t.Fatal(err)
}

func put(h *house, f *Firer, name, cron string, change ...func(*store.ScheduleEdit)) error {
	e := store.ScheduleEdit{Schedule: limits.DefaultSchedule(name)}
	e.Cron, e.Queue = cron, "q"
	e.Timeout = 10 * time.Second // so that what a dead node's worker had is soon another's
	for _, c := range change {
		c(&e)
	}
	_, err := f.Put(h.t.Context(), e)
	return err
}

// endsWell checks what the story leads to, beside what is always audited.
func endsWell(h *house) {
	h.t.Helper()
	if list, err := h.store.OpenFires(
		h.t.Context(), store.OpenQuery{},
	); err != nil || len(list) > 0 {
		h.t.Errorf("open in the end: %v, %v", list, err)
	}
	lead, follow := fired(h, "lead"), fired(h, "follow")
	if !slices.EqualFunc(lead, follow, func(a, b store.Fire) bool { return a.At == b.At }) {
		h.t.Errorf("lead fired %v, follow %v", h.fires("lead"), h.fires("follow"))
	}
	joined := fired(h, "joined")
	if !slices.EqualFunc(lead, joined, func(a, b store.Fire) bool { return a.At == b.At }) {
		h.t.Errorf("lead fired %v, joined %v", h.fires("lead"), h.fires("joined"))
	}
	// several of one parent may be one turn's: after a crash they come at once
	if n := len(fired(h, "turns")); n < 1 || n > len(fired(h, "other")) {
		h.t.Errorf("turns %v of lead %v and other %v", h.fires("turns"), h.fires("lead"),
			h.fires("other"))
	}
	for _, kind := range []string{"schedule.submitted", "schedule.done"} {
		if texts := h.events(kind); len(texts) != len(lead) ||
			len(slices.Compact(slices.Sorted(slices.Values(texts)))) != len(lead) {
			h.t.Errorf("%s was told of %d times, want each of %d once: %v", kind, len(texts),
				len(lead), texts)
		}
	}
	if n := len(h.rows("plain")); len(fired(h, "plain")) < n-2 || n < 8 {
		h.t.Errorf("plain: %v", h.fires("plain"))
	}
	for _, name := range []string{"queue", "replace"} {
		last := time.Time{}
		for _, f := range fired(h, name) {
			v, err := h.store.Task(h.t.Context(), f.Task)
			h.must(err)
			if len(v.Steps) == 0 {
				h.t.Errorf("%s at %s is not done", name, at(f.At))
				continue
			}
			begun, ended := v.Steps[0].Started, v.Steps[len(v.Steps)-1].Finished
			if !begun.IsZero() && begun.Before(last) {
				h.t.Errorf("%s at %s began before the one before it ended", name, at(f.At))
			}
			last = ended
		}
	}
}

// nth answers a fault at the n-th of the calls that it is asked about.
func nth(n int, kind fault.Fault, verbs ...string) func(string) fault.Fault {
	var calls atomic.Int64
	return func(verb string) fault.Fault {
		if !slices.Contains(verbs, verb) || calls.Add(1) != int64(n+1) {
			return fault.None
		}
		return kind
	}
}

// Each write fails once, in both ways.
func TestEveryWriteMayFail(t *testing.T) {
	first, step := rounds(0, 4), rounds(1, 16)
	for verb, writes := range map[string]int{"fire": 16, "end": 12, "append": 10, "change": 9,
		"act": 6} {
		for _, kind := range []fault.Fault{fault.Before, fault.After} {
			for n := first; n < writes; n += step {
				t.Run(fmt.Sprint(verb, kind, n), func(t *testing.T) {
					three(t, "2026-11-21 09:59:30", func(h *house) {
						h.fail(nth(n, kind, verb))
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
	first, step := rounds(0, 7), rounds(1, 16)
	for _, kind := range []fault.Fault{fault.Before, fault.After} {
		for n := first; n < 30; n += step {
			t.Run(fmt.Sprint(kind, n), func(t *testing.T) {
				inHouse(t, "2026-11-21 09:59:30", func(h *house) {
					h.crash = nth(n, kind, "fire", "end", "append", "change", "act")
					h.start("n1", "n2", "n3")
					troubled(h)
					endsWell(h)
				})
			})
		}
	}
}

// One call in four fails for a while, in either way, also those that only read.
func TestFaultsForAWhileAreOvercome(t *testing.T) {
	for seed := range uint64(rounds(10, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			three(t, "2026-11-21 09:59:30", func(h *house) {
				plan := fault.Seeded(seed, 4)
				var calls atomic.Int64
				h.fail(func(verb string) fault.Fault {
					if verb == "beat" || verb == "acquire" { // the node would be no member
						return fault.None
					}
					return plan(int(calls.Add(1)))
				})
				troubled(h)
				h.fail(nil)
				h.pass(time.Minute)
				endsWell(h)
			})
		})
	}
}

// The membership tells of an outage, once; the rounds that meet it with every beat say nothing.
func TestOutageIsLoggedOnceAndCaughtUp(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/10 * * * * *")
		h.until("2026-11-21 10:00:05")
		h.nodes["n1"].door.cut(true)
		h.until("2026-11-21 10:00:42")
		if n := h.log.count("level=ERROR"); n != 1 {
			t.Errorf("the log has %d errors, want one", n)
		}
		h.nodes["n1"].door.cut(false)
		h.until("2026-11-21 10:00:45")
		h.want("s", "09:59:40 fired", "09:59:50 fired", "10:00:00 fired", "10:00:10 fired",
			"10:00:20 fired", "10:00:30 fired", "10:00:40 fired")
	})
}
