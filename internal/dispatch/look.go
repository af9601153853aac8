package dispatch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// lookAtOnce is how many queues one question for ready tasks names.
const lookAtOnce = 1000

// look asks which queues have ready tasks in the store, of those whose tasks somebody waits for or
// that are ready here: a sign may have been lost. It asks for all of them in one call, for each at
// most once in Config.Look.
func (ts *transfers) look(ctx context.Context, now time.Time) error {
	ts.mu.Lock()
	names, signs := ts.mem.beginLook(now)
	ts.release()
	if len(names) == 0 {
		return nil
	}
	list, err := ts.store.Ready(ctx, names)
	if err != nil {
		return err
	}
	ts.mu.Lock()
	defer ts.release()
	ts.mem.queues.endLook(names, signs, list, now)
	return nil
}

// beginLook names the queues of which the store is to be asked now, with how many signs there were
// of each.
func (m *memory) beginLook(now time.Time) (names []string, signs []int) {
	for name, q := range m.queues {
		if !q.taking && !q.conf.Paused && !m.shut() && now.Sub(q.looked) >= m.conf.Look &&
			(q.ready.count() > 0 || q.demand(now) > 0) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(m.queues[a].looked.Compare(m.queues[b].looked), strings.Compare(a, b))
	})
	names = names[:min(len(names), lookAtOnce)]
	signs = make([]int, len(names))
	for i, name := range names {
		q := m.queues[name]
		q.looked, signs[i] = now, q.signs
	}
	return names, signs
}

// endLook takes in which of the queues have ready tasks in the store.
func (qs queues) endLook(names []string, signs []int, list []store.Ready, now time.Time) {
	ranks := make(map[string]int64, len(list))
	for _, r := range list {
		ranks[r.Queue] = r.Rank
	}
	for i, name := range names {
		q := qs[name]
		if q == nil {
			continue
		}
		if rank, found := ranks[name]; found {
			q.sign(rank)
			q.backlog = true
			signs[i]++
		}
		if q.signs == signs[i] && !q.taking { // nothing was heard meanwhile: that is all there is
			q.behind = noRank
			if rank, found := ranks[name]; found {
				q.behind = rank
			}
		}
		q.match(now)
	}
}
