package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/task"
)

// Hear takes in a hint from another node: queue may have ready tasks in the store, tasks of this
// node may have been settled or acted on elsewhere; neither: any queue may have ready tasks. Hints
// may be lost, late or wrong; a round finds the same a beat later.
func (ts *transfers) Hear(queue string, ids []task.ID) {
	now := time.Now()
	ts.mu.Lock()
	defer ts.release()
	ts.mem.hearHint(queue, ids, now)
}

func (m *memory) hearHint(queue string, ids []task.ID, now time.Time) {
	if m.closed {
		return
	}
	names := []string{queue}
	if queue == "" && len(ids) == 0 {
		names = slices.Sorted(maps.Keys(m.queues))
	}
	for _, name := range names {
		m.hearReady(name, unknownRank, now)
	}
	var touched []*item
	for _, id := range ids {
		if it := m.item(id); it != nil {
			touched = append(touched, it)
		}
		m.watchers.tell(id, &m.do)
	}
	m.reloadSoon(touched...)
}

// hearReady takes in that the store has ready tasks of a queue from a rank on.
func (m *memory) hearReady(name string, rank int64, now time.Time) {
	q := m.queues[name]
	if q == nil || m.closed { // nobody waits for it here
		return
	}
	q.sign(rank)
	q.backlog = true
	if q.gate.limited {
		q.gate.probe()
		q.match(now)
	}
	q.takeSoon(now)
}
