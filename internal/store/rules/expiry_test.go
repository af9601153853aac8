package rules

import (
	"slices"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestFreeSpansWithTasksWhoseTimeIsOverAreFound(t *testing.T) {
	span := func(id int64, lo, hi, seq0 int32) store.Span {
		return store.Span{ID: id, Lo: lo, Hi: hi, Seq0: seq0}
	}
	for _, test := range []struct {
		name string
		list []Limited
		free []store.Span
		over []int64
		next int64
	}{
		{"none has a limit", nil, []store.Span{span(1, 0, 9, 0)}, nil, 0},
		{"it is not over", []Limited{{3, 0, 101}}, []store.Span{span(1, 0, 9, 0)}, nil, 101},
		{"it is over now", []Limited{{3, 0, 100}}, []store.Span{span(1, 0, 9, 0)}, []int64{1}, 100},
		{"the first and the last number", []Limited{{0, 0, 7}, {19, 0, 8}},
			[]store.Span{span(2, 10, 19, 0), span(1, 0, 9, 0)}, []int64{1, 2}, 7},
		{"somebody holds it", []Limited{{12, 0, 7}}, []store.Span{span(1, 0, 9, 0)}, nil, 7},
		{"somebody holds what comes before all", []Limited{{1, 0, 7}},
			[]store.Span{span(1, 5, 9, 0)}, nil, 7},
		{"it left the span", []Limited{{3, 2, 7}},
			[]store.Span{span(1, 0, 9, 0), span(2, 3, 3, 2)}, []int64{2}, 7},
		{"another left the span", []Limited{{3, 0, 7}},
			[]store.Span{span(1, 4, 9, 0), span(2, 3, 3, 1)}, nil, 7},
		{"some are over, others later", []Limited{{3, 0, 99}, {4, 0, 300}, {15, 0, 200}},
			[]store.Span{span(1, 0, 9, 0), span(2, 10, 19, 0)}, []int64{1}, 99},
	} {
		over, next := Expired(100, test.list, test.free)
		var ids []int64
		for _, sp := range over {
			ids = append(ids, sp.ID)
		}
		if !slices.Equal(ids, test.over) || next != test.next {
			t.Errorf("%s: spans %v, look again at %d, want %v at %d", test.name, ids, next,
				test.over, test.next)
		}
	}
}

func TestFirstLimitCountsFromTheDueTime(t *testing.T) {
	if got := FirstLimit(100, []store.Task{{}, {StartWithin: 30}, {StartWithin: 20}}); got != 120 {
		t.Errorf("the first limit is %d, want 120", got)
	}
	if got := FirstLimit(100, []store.Task{{}, {}}); got != 0 {
		t.Errorf("the first limit of tasks without one is %d", got)
	}
}

func TestWhatIsExpiredIsKeptAsDeadOnesAre(t *testing.T) {
	for kind, want := range map[task.Kind]bool{task.KindDone: false, task.KindCancelled: false,
		task.KindRemoved: false, task.KindFail: true, task.KindExpired: true} {
		if got := KeptAsDead(kind); got != want {
			t.Errorf("%s is kept as a dead one: %t", kind, got)
		}
	}
}
