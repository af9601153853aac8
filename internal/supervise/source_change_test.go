package supervise_test

import (
	"slices"
	"testing"

	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// byHand lets operators list the jobs of a group.
func byHand(g *task.Group) { g.Source = task.Source{Kind: task.SourceAPI} }

// A list that was read and could not be written down is not written down once the group has another
// source: an operator may have listed its jobs since.
func TestListThatWaitsIsNotTakenForAnotherSource(t *testing.T) {
	inHouse(t, func(h *house) {
		f := newFile(h, "a\nb\n")
		h.group("g", 0, f.source)
		h.Fail(func(verb string) fault.Fault {
			if verb == "ChangeJobs" {
				return fault.Before
			}
			return fault.None
		})
		h.Start("n1")
		h.Pass(20 * beat) // it was read
		h.configure("g", byHand)
		h.jobs("g", 1)
		h.Fail(nil)
		h.Pass(20 * beat)
		if list := h.listed(); !slices.Equal(list, []string{"j0000"}) {
			t.Errorf("listed are %q, want what the operator listed", list)
		}
	})
}

// A list is of a source: whoever reads on for an earlier one changes nothing.
func TestListOfAnEarlierSourceIsRefused(t *testing.T) {
	inHouse(t, func(h *house) {
		f := newFile(h, "a\nb\n")
		h.group("g", 0, f.source)
		asked := false
		h.Fail(func(verb string) fault.Fault { // the supervisor has not heard of it
			if verb == "ChangeJobs" && !asked {
				asked = true
				h.configure("g", byHand)
				h.jobs("g", 1)
			}
			return fault.None
		})
		h.Start("n1")
		h.Pass(20 * beat)
		if list := h.listed(); !asked || !slices.Equal(list, []string{"j0000"}) {
			t.Errorf("listed are %q, want what the operator listed", list)
		}
	})
}

// What was changed by hand between two times of the same list is as the list says again.
func TestSameListAfterAChangeByHandHolds(t *testing.T) {
	inHouse(t, func(h *house) {
		f := newFile(h, "a\nb\n")
		h.group("g", 0, f.source)
		h.Start("n1")
		h.Pass(20 * beat)
		h.configure("g", byHand)
		h.jobs("g", 1)
		h.Pass(20 * beat)
		h.configure("g", f.source)
		h.Pass(20 * beat)
		if list := h.listed(); !slices.Equal(list, []string{"a", "b"}) {
			t.Errorf("listed are %q, want what the file lists", list)
		}
	})
}

// listed are the names of the jobs of group g, sorted.
func (h *house) listed() (names []string) {
	h.T.Helper()
	c, err := h.Store.Changes(h.T.Context(), "g", 0)
	h.Must(err)
	for i := range c.Jobs {
		if !c.Jobs[i].Gone {
			names = append(names, c.Jobs[i].Name)
		}
	}
	slices.Sort(names)
	return names
}
