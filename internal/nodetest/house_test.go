package nodetest_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// node is one without anything of a package's own.
type node = nodetest.Node[struct{}]

// inHouse runs a story with nodes n1 and n2 in a bubble.
func inHouse(t *testing.T, story func(t *testing.T, h *nodetest.House[struct{}])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.New(t, nodetest.Config[struct{}]{Begin: "2026-11-21 10:00:00"})
		defer h.Close()
		h.Start("n1", "n2")
		story(t, h)
	})
}

func submit(t *testing.T, n *node) error {
	_, err := n.Tasks.Submit(t.Context(), []task.Submission{{Queue: "q"}})
	return err
}

// hold holds one task for a worker, and says so.
func hold(t *testing.T, n *node, worker string) bool {
	t.Helper()
	got, err := n.Tasks.Hold(t.Context(), task.HoldRequest{
		Worker: worker, Queues: []string{"q"}, Limit: 1, Wait: time.Second,
	})
	return err == nil && len(got.Tasks) == 1
}

func TestTasksOfANodeThatIsKilledGoToAnother(t *testing.T) {
	inHouse(t, func(t *testing.T, h *nodetest.House[struct{}]) {
		first := h.Node("n1")
		h.Must(submit(t, first))
		if !hold(t, first, "a") {
			t.Fatal("it hands nothing out")
		}
		h.Kill("n1")
		if !first.Dead() || h.Live() != h.Node("n2") {
			t.Errorf("dead %v, live %s", first.Dead(), h.Live().Name)
		}
		took := h.Await(time.Minute, "another has its task", func() bool {
			return hold(t, h.Live(), "b")
		})
		if took < nodetest.Lease/2 {
			t.Errorf("it was taken from the living after %v", took)
		}
		h.Start("n1")
		if next := h.Node("n1"); next == first || next.Dead() || next.Start == first.Start {
			t.Errorf("a second life: %+v", next)
		}
	})
}

func TestNodeIsCutOffAndRestored(t *testing.T) {
	inHouse(t, func(t *testing.T, h *nodetest.House[struct{}]) {
		n := h.Node("n1")
		n.Door.Cut()
		if err := submit(t, n); !errors.Is(err, store.ErrOutOfReach) {
			t.Errorf("a node that is cut off answers %v", err)
		}
		h.Pass(5 * nodetest.Beat)
		if h.Journal.Count("the store is out of reach") != 1 {
			t.Error("it does not say so once")
		}
		n.Door.Restore()
		h.Pass(5 * nodetest.Beat)
		h.Must(submit(t, n))
	})
}

func TestCallsFailAtAllNodesAlsoAtThoseToCome(t *testing.T) {
	inHouse(t, func(t *testing.T, h *nodetest.House[struct{}]) {
		h.Fail(fault.Each(fault.Before, "Submit"))
		h.Start("n3")
		for _, n := range h.Nodes() {
			if err := submit(t, n); !errors.Is(err, fault.ErrFault) {
				t.Errorf("%s answers %v", n.Name, err)
			}
		}
		h.Fail(nil)
		h.Must(submit(t, h.Node("n3")))
	})
}

func TestNodeCrashesAtItsCall(t *testing.T) {
	inHouse(t, func(t *testing.T, h *nodetest.House[struct{}]) {
		h.Kill("n1")
		h.CrashAt("n1", fault.Nth(1, fault.After, "Submit"))
		h.Start("n1")
		n := h.Node("n1")
		h.Must(submit(t, n))
		if n.Door.Crashed() {
			t.Error("it crashed before its time")
		}
		submit(t, n)
		if n.Door.Restore(); !n.Door.Crashed() || !n.Door.Away() {
			t.Error("it goes on")
		}
		if h.Live() != h.Node("n2") {
			t.Errorf("who lives is %s", h.Live().Name)
		}
	})
}

func TestHouseIsWatchedWhileTimePasses(t *testing.T) {
	inHouse(t, func(t *testing.T, h *nodetest.House[struct{}]) {
		h.Jump(time.Hour)
		var seen []time.Time
		h.Watch = func() { seen = append(seen, h.Now()) }
		h.Until("2026-11-21 11:00:10")
		if n := len(seen); n < 100 || !slices.IsSortedFunc(seen, time.Time.Compare) {
			t.Errorf("watched %d times", n)
		}
		if got := h.Now().Format(time.TimeOnly); got != "11:00:10" {
			t.Errorf("it is %s", got)
		}
	})
}
