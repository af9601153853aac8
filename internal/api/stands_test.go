package api

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/overview"
	"github.com/rotahq/rota/internal/store"
)

type allOfSchedules = Schedules

// planned are schedules that a walk looks at, which takes a while.
type planned struct {
	allOfSchedules
	next   []int64 // due times, of schedules one after the other
	paused []bool
	walk   time.Duration
	walks  []time.Time
}

func (p *planned) stands(late int64) store.ScheduleStand {
	s := store.ScheduleStand{Queue: "q", All: int64(len(p.next))}
	for i, at := range p.next {
		switch {
		case p.paused[i]:
			s.Paused++
		case at < late:
			s.Late++
		}
	}
	return s
}

func (p *planned) Stands(_ context.Context, late int64) ([]store.ScheduleStand, error) {
	s := p.stands(late)
	time.Sleep(p.walk)
	p.walks = append(p.walks, time.Now())
	return []store.ScheduleStand{s}, nil
}

func (p *planned) Overdue(context.Context) (time.Duration, error) {
	now := time.Now().UnixMicro()
	if len(p.next) == 0 || slices.Min(p.next) > now {
		return 0, nil
	}
	return time.Duration(now-slices.Min(p.next)) * time.Microsecond, nil
}

// Whatever happens to schedules, how many are late is what a walk says, and how many there are what
// a walk said lately; and walks take a hundredth of the time at most while none is late.
func TestSchedulesStandAsAWalkSays(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			walk := time.Duration(r.IntN(300)) * time.Millisecond
			p := &planned{walk: walk}
			var s stands
			changed, asked, anyLate := time.Now(), 0, false
			for range 300 {
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
				now := time.Now()
				switch i := r.IntN(40); {
				case i == 0:
					due := now.Add(time.Duration(r.IntN(60)) * time.Second)
					p.next = append(p.next, due.UnixMicro())
					p.paused = append(p.paused, r.IntN(3) == 0)
					changed = now
				case i == 1 && len(p.next) > 0:
					k := r.IntN(len(p.next))
					p.paused[k], changed = !p.paused[k], now
				case i == 2: // nobody fires for a while
				default:
					for k, at := range p.next {
						if at < now.UnixMicro() {
							p.next[k] = now.Add(time.Duration(r.IntN(60)) * time.Second).UnixMicro()
						}
					}
				}
				want := p.stands(now.Add(-overview.LateAfter).UnixMicro())
				overdue, _ := p.Overdue(t.Context())
				anyLate = anyLate || overdue >= overview.LateAfter/2
				got, err := s.of(t.Context(), p, now)
				asked++
				if err != nil || len(got.stands) != 1 {
					t.Fatalf("seed %d: %+v, %v", seed, got, err)
				}
				is := got.stands[0]
				if is.Late != want.Late {
					t.Fatalf("seed %d: %d are late, a walk says %d", seed, is.Late, want.Late)
				}
				if time.Since(changed) > walk+max(overviewEvery, standsRest*walk)+time.Second &&
					is != want {
					t.Fatalf("seed %d: %+v, a walk says %+v", seed, is, want)
				}
			}
			for i := 1; i < len(p.walks) && !anyLate; i++ {
				if d := p.walks[i].Sub(p.walks[i-1]); d < standsRest*walk {
					t.Fatalf("seed %d: walked again after %v, a walk takes %v", seed, d, walk)
				}
			}
			if walk > 100*time.Millisecond && len(p.walks) == asked {
				t.Fatalf("seed %d: each time it was walked", seed)
			}
		})
	}
}
