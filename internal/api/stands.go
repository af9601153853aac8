package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/overview"
	"github.com/rotahq/rota/internal/store"
)

// standsRest bounds what it costs to count schedules: a hundredth of the time. To count them the
// store looks at each, which of 100,000 takes a third of a second; how many there are, and how many
// are paused, changes only when people change them. No count is used for longer than standsFor: it
// may have taken long because the store was slow.
const (
	standsRest = 100
	standsFor  = time.Minute
)

// stands are how schedules stood when they were counted last.
type stands struct {
	mu   sync.Mutex // one counting at a time
	list []store.ScheduleStand
	at   time.Time // zero = they were not counted yet
	took time.Duration
}

// of is how schedules stand by the store's clock. How many are late is of now always: none is
// unless the earliest due time that nobody has handled is long ago, and then they are counted.
func (s *stands) of(
	ctx context.Context, schedules ScheduleStands, now time.Time,
) (seen seenSchedules, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen.overdue, err = schedules.Overdue(ctx); err != nil {
		return seen, err
	}
	// Half of it: who handles them may have a clock that is a little behind.
	late := seen.overdue >= overview.LateAfter/2
	rest := min(max(overviewEvery, standsRest*s.took), standsFor)
	if s.at.IsZero() || late || time.Since(s.at) >= rest {
		begin := time.Now()
		list, err := schedules.Stands(ctx, now.Add(-overview.LateAfter).UnixMicro())
		if err != nil {
			return seen, err
		}
		s.list, s.at, s.took = list, time.Now(), time.Since(begin)
	}
	seen.stands = slices.Clone(s.list)
	if !late {
		for i := range seen.stands {
			seen.stands[i].Late = 0
		}
	}
	return seen, nil
}
