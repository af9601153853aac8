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
	"github.com/rotahq/rota/task"
)

func TestBackfillFiresWhatWasNotFired(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/10 * * * *", misfire(task.MisfireSkip))
		h.Until("2026-11-21 10:10:30")
		h.Kill("n1")
		h.Until("2026-11-21 10:35:00")
		h.Start("n1")
		h.Pass(5 * time.Second)
		h.want("s", "10:00:00 fired", "10:10:00 fired", "10:20:00 missed", "10:30:00 missed")
		ask := store.BackfillRequest{From: h.us("09:40:00"), To: h.us("11:00:00"), DryRun: true}
		for _, dry := range []bool{true, false} {
			ask.DryRun = dry
			got, err := h.firer().Backfill(h.T.Context(), "s", ask)
			h.Must(err)
			if len(got.Times) != 4 || got.Fired != 2 || dry != (len(got.Fires) == 0) {
				t.Errorf("dry %v: %+v", dry, got)
			}
		}
		h.want("s", "09:40:00 fired", "09:50:00 fired", "10:00:00 fired", "10:10:00 fired",
			"10:20:00 fired", "10:30:00 fired")
		if f := h.rows("s")[4]; f.Origin != task.OriginBackfill {
			t.Errorf("%+v", f)
		}
		got, err := h.firer().Backfill(h.T.Context(), "s", ask)
		if err != nil || len(got.Times) != 0 || got.Fired != 6 {
			t.Errorf("once more: %+v, %v", got, err)
		}
	})
}

func TestBackfillWithALimitRunsSoManyAtATime(t *testing.T) {
	three(t, "2026-11-21 09:51:00", func(h *house) {
		h.put("s", "0 0 1 1 *")
		h.put("s", "*/10 * * * *")
		most := 0
		for _, n := range []string{"n1", "n2", "n3"} {
			h.work(n, "q", 5*time.Second, func(task.Handout) task.Outcome {
				return task.Finish(nil)
			})
		}
		_, err := h.firer().Backfill(h.T.Context(), "s", store.BackfillRequest{
			From: h.us("08:00:00"), To: h.us("09:30:00"), Limit: 2,
		})
		h.Must(err)
		for began := time.Now(); open(h, "s") > 0 &&
			time.Since(began) < 3*time.Minute; h.Pass(500 * time.Millisecond) {
			list, err := h.Store.OpenFires(h.T.Context(), store.OpenQuery{Schedules: []string{"s"}})
			h.Must(err)
			running := 0
			for i := range list {
				if list[i].Outcome == task.FireFired && !list[i].Final {
					running++
				}
			}
			most = max(most, running)
		}
		if n := len(fired(h, "s")); most != 2 || n != 9 || open(h, "s") != 0 {
			t.Errorf("%d at a time, %d fired, %d open: %v", most, n, open(h, "s"), h.fires("s"))
		}
	})
}

// The due times that share a row go on sharing it, but for those that are fired after all.
func TestBackfillOfASharedRowKeepsTheRest(t *testing.T) {
	alone(t, "2026-11-21 10:00:00", func(h *house) {
		h.put("s", "* * * * * *", misfire(task.MisfireSkip))
		h.Kill("n1")
		h.Until("2026-11-21 11:00:00")
		h.Start("n1")
		h.Pass(5 * time.Second)
		h.put("s", "0 0 1 1 *") // enough
		h.put("s", "* * * * * *", func(e *store.ScheduleEdit) { e.Paused = true })
		_, err := h.firer().Backfill(h.T.Context(), "s", store.BackfillRequest{
			From: h.us("10:00:01"), To: h.us("10:00:04"),
		})
		h.Must(err)
		want := "10:00:01 fired, 10:00:01 missed ×2539, 10:00:02 fired, 10:00:03 fired, 10:42:20 missed"
		if got := strings.Join(h.fires("s")[:5], ", "); got != want {
			t.Errorf("fires begin with %s, want %s", got, want)
		}
		if f := h.rows("s")[1]; f.At != h.us("10:00:01")+1 || f.Through != h.us("10:42:19") {
			t.Errorf("the rest: %+v", f)
		}
	})
}

// The rest of a shared row is not what the backfill fired.
func TestBackfillAnswersWhatItFiredOnly(t *testing.T) {
	alone(t, "2026-11-21 10:00:00", func(h *house) {
		h.put("s", "* * * * * *", misfire(task.MisfireSkip))
		h.Kill("n1")
		h.Until("2026-11-21 11:00:00")
		h.Start("n1")
		h.Pass(5 * time.Second)
		h.put("s", "* * * * * *", func(e *store.ScheduleEdit) { e.Paused = true })
		var answer []string
		for _, part := range [][2]string{{"10:00:02", "10:00:03"}, {"10:00:05", "10:00:07"},
			{"10:00:01", "10:00:05"}} {
			done, err := h.firer().Backfill(h.T.Context(), "s", store.BackfillRequest{
				From: h.us(part[0]), To: h.us(part[1]),
			})
			h.Must(err)
			for _, f := range done.Fires {
				answer = append(answer, at(f.At)+" "+string(f.Outcome))
			}
			answer = append(answer, fmt.Sprintf("%d times, %d before", len(done.Times), done.Fired))
		}
		want := "10:00:02 fired, 1 times, 0 before, 10:00:05 fired, 10:00:06 fired, 2 times, 0 before, 10:00:01 fired, 10:00:03 fired, 10:00:04 fired, 3 times, 1 before"
		if got := strings.Join(answer, ", "); got != want {
			t.Errorf("answered %s\nwant     %s", got, want)
		}
		a, err := h.firer().Audit(h.T.Context(), "s", 0, 0)
		h.Must(err)
		if len(a.Holes) > 0 || len(a.Strays) > 0 {
			t.Errorf("holes %v, strays %v", a.Holes, a.Strays)
		}
	})
}

// A backfill goes in pieces. When others change the schedule between two of them it goes on, and
// answers for all.
func TestBackfillThatMeetsAChangeAnswersForAll(t *testing.T) {
	three(t, "2026-11-21 10:00:00", func(h *house) {
		h.put("s", "*/2 * 8 * * *")
		var fires atomic.Int32
		h.Fail(func(verb string) fault.Fault {
			if verb == "Fire" && fires.Add(1) == 2 { // the second piece finds another version
				if _, err := h.firerOf("n2").Pause(h.T.Context(), "s", true); err != nil {
					t.Error(err)
				}
			}
			return fault.None
		})
		done, err := h.firerOf("n1").Backfill(h.T.Context(), "s", store.BackfillRequest{
			From: h.us("08:00:00"), To: h.us("09:00:00"),
		})
		h.Must(err)
		h.Fail(nil)
		if len(done.Times) != 1800 || len(done.Fires) != 1800 || done.Fired != 0 {
			t.Fatalf("%d times, %d fires, %d fired before", len(done.Times), len(done.Fires),
				done.Fired)
		}
		for i := range done.Times {
			if done.Fires[i].At != done.Times[i] {
				t.Fatalf("fire %d stands at %s, its time is %s", i, at(done.Fires[i].At),
					at(done.Times[i]))
			}
		}
	})
}

func TestBadBackfillsAreRefused(t *testing.T) {
	alone(t, "2026-11-21 10:00:00", func(h *house) {
		h.put("s", "* * * * * *")
		h.put("second", "", after("s"))
		now := h.us("10:00:00")
		for _, c := range []struct {
			name        string
			r           store.BackfillRequest
			where, what string
		}{
			{"s", store.BackfillRequest{From: now, To: now}, "body.to", "after from"},
			{"s", store.BackfillRequest{From: now - 1, To: now, Limit: -1}, "body.limit",
				"must be 0"},
			{"s", store.BackfillRequest{From: now - 1, To: now, Limit: 1 << 40}, "body.limit",
				"to 10000"},
			{"s", store.BackfillRequest{From: now - 36500*24*3600*1e6, To: now}, "body.to",
				"more than 10000"},
			{"second", store.BackfillRequest{From: now - 1e6, To: now}, "body", "follows"},
		} {
			_, err := h.firer().Backfill(h.T.Context(), c.name, c.r)
			refused(t, err, c.where, c.what)
		}
		if _, err := h.firer().Backfill(
			h.T.Context(), "none", store.BackfillRequest{From: 1, To: 2},
		); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
		if _, err := h.firer().Fires(
			h.T.Context(), store.FireQuery{Schedule: "none"},
		); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("fires of none: %v", err)
		}
	})
}

func TestBackfillsAskForDueTimesOfThePastThatAreHandled(t *testing.T) {
	minute := func(n int64) int64 { return noon + n*60e6 }
	as := func(*store.Schedule) {}
	for _, c := range []struct {
		name     string
		change   func(*store.Schedule)
		next     int64 // where the cursor stands
		from, to int64
		want     []int64
	}{
		{"from is in it, to is not", as, minute(1), minute(-3), minute(-1),
			[]int64{minute(-3), minute(-2)}},
		{"what is due is handled first", as, minute(-1), minute(-3), minute(9),
			[]int64{minute(-3), minute(-2)}},
		{"nothing of what is to come", func(s *store.Schedule) {
			s.First = minute(60)
		}, minute(60), minute(-1), minute(9), []int64{minute(-1), minute(0)}},
		{"not before it starts", func(s *store.Schedule) {
			s.Starts = time.UnixMicro(minute(-1))
		}, minute(1), minute(-3), minute(0), []int64{minute(-1)}},
		{"nor after it ended", func(s *store.Schedule) {
			s.Ends = time.UnixMicro(minute(-2))
		}, store.Never, minute(-3), minute(0), []int64{minute(-3), minute(-2)}},
	} {
		s := about(t, "* * * * *", c.change)
		s.Next = c.next
		if got, err := s.demand(
			store.BackfillRequest{From: c.from, To: c.to}, noon,
		); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestBackfillWithALimitWaitsForWhatRuns(t *testing.T) {
	for _, c := range []struct {
		name            string
		overlap         task.Overlap
		limit           int
		running, queued int
		want            string
		slots           int32
	}{
		{"all at once", task.OverlapAllow, 0, 3, 0, "12:01:00–12:04:00 fired", 0},
		{"two at a time", task.OverlapAllow, 2, 0, 0,
			"12:01:00–12:02:00 fired, 12:03:00–12:04:00 queued", 2},
		{"one runs", task.OverlapAllow, 2, 1, 0, "12:01:00 fired, 12:02:00–12:04:00 queued", 2},
		{"more run", task.OverlapAllow, 2, 3, 0, "12:01:00–12:04:00 queued", 2},
		{"others wait", task.OverlapAllow, 2, 0, 1, "12:01:00–12:04:00 queued", 2},
		{"tasks are not to overlap", task.OverlapSkip, 0, 0, 0,
			"12:01:00 fired, 12:02:00–12:04:00 queued", 1},
		{"tasks are not to overlap, two may", task.OverlapQueue, 2, 0, 0,
			"12:01:00–12:02:00 fired, 12:03:00–12:04:00 queued", 2},
	} {
		s := about(t, "* * * * *", func(s *store.Schedule) { s.Overlap = c.overlap })
		opens(c.running, c.queued)(s)
		fires := s.refill([]int64{noon + 60e6, noon + 120e6, noon + 180e6, noon + 240e6}, nil,
			c.limit)
		if got := written(fires); got != c.want || fires[0].Limit != c.slots ||
			fires[3].Limit != c.slots {
			t.Errorf("%s: %s, %d at a time; want %s, %d", c.name, got, fires[0].Limit, c.want,
				c.slots)
		}
	}
}
