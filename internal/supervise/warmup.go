package supervise

import (
	"time"

	"github.com/rotahq/rota/internal/store"
)

// warmup is the time in which a new supervisor assigns nothing: workers that have lost their node
// are to come back with what they run first, and of those that have just started none is to get
// everything because it was the first.
type warmup struct {
	limit time.Duration // of the node, if the group does not say less; 0 = none
	over  bool
	began time.Time
	alone bool      // when it began, nobody was known, or only who had just joined
	first time.Time // when the first worker was seen then
	had   int       // assignments that stood when it began
	short bool      // replicas had no place then
}

// adopted is how many assignments have come since: nobody assigned any.
func (w *warmup) adopted(p *snapshot) int { return max(0, len(p.rows)-w.had) }

// newcomers: with no worker that was known before it lasts so many beats from the first beat of the
// first.
const newcomers = 3

// done tells whether the warm-up is over. Without any worker there is nothing to wait for and
// nothing to assign, but what stands of the dead.
func (w *warmup) done(p *snapshot, now time.Time, beat time.Duration) bool {
	if w.over {
		return true
	}
	known, orphans, joined := 0, 0, p.now
	for _, s := range p.seats {
		switch s.State {
		case store.SeatOrphan:
			orphans++
			known++
			joined = min(joined, s.Joined)
		case store.SeatTaken:
			known++
			joined = min(joined, s.Joined)
		}
	}
	if w.began.IsZero() {
		w.began, w.had, w.short = now, len(p.rows), p.short()
		w.alone = p.now-joined < (newcomers * beat).Microseconds()
	}
	limit := p.group.Policy.Warmup
	if w.limit > 0 {
		limit = min(limit, w.limit)
	}
	elapsed := now.Sub(w.began) >= limit
	switch {
	case known == 0:
		w.alone, w.first = true, time.Time{}
		return elapsed
	case w.alone:
		if w.first.IsZero() {
			w.first = now
		}
		w.over = now.Sub(w.first) >= newcomers*beat
	default:
		w.over = orphans == 0 || elapsed
	}
	return w.over
}
