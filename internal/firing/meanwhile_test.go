package firing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// meanwhile does something at another node right before a call of the store by any node, once.
func (h *house) meanwhile(verb string, do func()) {
	done := false
	h.Fail(func(v string) fault.Fault {
		if v == verb && !done {
			done = true
			do()
		}
		return fault.None
	})
}

// crowded lets every node look after all of some schedules, and lets each write wait for a while,
// so that nodes decide by what others are about to change. also fails writes besides.
func (h *house) crowded(seed uint64, also func(string) fault.Fault, names ...string) {
	for _, n := range h.Nodes() {
		for _, name := range names {
			n.Own.own(name, true)
		}
	}
	var mu sync.Mutex
	luck := rand.New(rand.NewPCG(seed, 9))
	h.Fail(func(verb string) fault.Fault {
		if verb != "Fire" && verb != closeFires && verb != "ChangeSchedules" {
			return fault.None
		}
		mu.Lock()
		wait := time.Duration(luck.IntN(1200)) * time.Millisecond
		mu.Unlock()
		time.Sleep(wait)
		return also(verb)
	})
}

// Two people make a circle at two nodes at the same time, each half of which is none: the second is
// told.
func TestCircleThatTwoNodesMakeAtOnceIsRefused(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("a", "0 0 1 1 *")
		h.put("b", "0 0 1 1 *")
		h.meanwhile("ChangeSchedules", func() { h.Must(put(h, h.firerOf("n2"), "b", "", after("a"))) })
		err := put(h, h.firerOf("n1"), "a", "", after("b"))
		h.Fail(nil)
		var wrong *task.InvalidError
		if !errors.As(err, &wrong) || len(wrong.Fields) != 1 ||
			wrong.Fields[0].Location != "body.after" {
			t.Errorf("the second half: %v", err)
		}
		list, err := h.Store.Schedules(t.Context(), store.ScheduleQuery{})
		h.Must(err)
		if list[0].After != "" || list[1].After != "a" {
			t.Errorf("a follows %q, b follows %q", list[0].After, list[1].After)
		}
	})
}

// A follower that is put while its leader is fired has a row for that due time: as soon as it
// stands nothing is fired unwatched.
func TestFollowerThatIsPutWhileItsLeaderFiresMissesNothing(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("lead", "0 10 * * *")
		h.work("n1", "q", time.Second, finish)
		h.meanwhile("Fire", func() {
			h.Must(put(h, h.firerOf("n2"), "next", "", after("lead")))
		})
		h.Until("2026-11-21 10:00:10")
		h.Fail(nil)
		h.want("lead", "10:00:00 fired")
		h.want("next", "10:00:00 fired")
	})
}

// Two people backfill adjoining times out of one shared row at two nodes at once: each due time is
// fired once, none loses its row, and with a limit so many run at a time.
func TestAdjoiningBackfillsAtOnceFireEachDueTimeOnce(t *testing.T) {
	for _, limit := range []int{0, 1, 3} {
		for what, other := range map[string][2]string{"before": {"10:00:01", "10:10:00"},
			"behind": {"10:20:00", "10:30:00"}} {
			t.Run(fmt.Sprint(what, limit), func(t *testing.T) {
				alone(t, "2026-11-21 10:00:00", func(h *house) {
					longMiss(h)
					h.StartOne("n2")
					h.meanwhile("Fire", func() {
						h.Must(h.refill(h.firerOf("n2"), other[0], other[1], limit))
					})
					h.Must(h.refill(h.firerOf("n1"), "10:10:00", "10:20:00", limit))
					h.Fail(nil)
					fired, waiting, first, last := 0, 0, h.us("10:10:00"), h.us("10:20:00")
					first, last = min(first, h.us(other[0])), max(last, h.us(other[1]))
					for _, f := range h.rows("s") {
						if f.At >= first && f.At < last && f.Origin == task.OriginBackfill {
							switch f.Outcome {
							case task.FireFired:
								fired++
							case task.FireQueued:
								waiting++
							}
						}
					}
					if want := int(last-first) / 1e6; fired+waiting != want || limit > 0 &&
						fired > limit {
						t.Errorf("%d are fired and %d wait of %d, at most %d at a time", fired,
							waiting, want, limit)
					}
					a, err := h.firerOf("n1").Audit(t.Context(), "s", 0, 0)
					h.Must(err)
					if len(a.Holes) != 0 {
						t.Errorf("due times without rows: %d, first %v", len(a.Holes),
							slices.Min(a.Holes))
					}
				})
			})
		}
	}
}
