package dispatch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What comes from a node has ids of the one kind or of the other, all different, and only growing.
func TestIdsSayWhetherTasksMayBeChildren(t *testing.T) {
	m := &batchIDs{node: 0x3ff}
	before := int64(0)
	for i := range 100 {
		id := m.nextBatch(5)
		if i%3 == 0 {
			id = m.nextChildren(5)
		}
		if store.MayBeChildren(id) != (i%3 == 0) || id <= before {
			t.Fatalf("%x after %x", id, before)
		}
		before = id
	}
}

// Of a flight of several callers each gets the ids of its own reports.
func TestChildrenOfAFlightAreToldToTheirCallers(t *testing.T) {
	a, b := newSettlement(2), newSettlement(3)
	for range 2 {
		a.add()
	}
	for range 3 {
		b.add()
	}
	one, two := []task.ID{{Batch: 1}}, []task.ID{{Batch: 2}}
	noteSpawned([]*settlement{a, b}, []store.Spawned{{Report: 1, IDs: one}, {Report: 3, IDs: two}})
	if diff := cmp.Diff(map[int][]task.ID{1: one}, a.spawned); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int][]task.ID{1: two}, b.spawned); diff != "" {
		t.Error(diff)
	}
}
