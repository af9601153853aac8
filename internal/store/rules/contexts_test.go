package rules

import (
	"errors"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// steps are what was submitted and n steps, each of which leaves all as it was.
func steps(n int32) []store.ContextStep {
	list := []store.ContextStep{{Seq: -1, Stage: "a", ContextSeq: -1}}
	for seq := range n {
		list = append(list, store.ContextStep{
			Seq: seq, Kind: task.KindRetry, Stage: "a", ContextSeq: -1,
		})
	}
	return list
}

func TestAPageOfContextsLooksAtSoManySteps(t *testing.T) {
	list := steps(2*ContextsExamined + 5)
	last := int32(len(list) - 2)
	list[len(list)-1].Stage = "b"
	var seqs []int32
	q := store.ContextsQuery{Limit: 9}
	for pages := 0; ; pages++ {
		// what a store reads: the step before the page, and so many
		from := max(q.From-1, 0)
		end := min(int(from)+1+ContextsExamined, len(list))
		chosen, next := Handed(q, list[from:end])
		for _, s := range chosen {
			seqs = append(seqs, s.Seq)
		}
		if next == 0 {
			if pages != 2 {
				t.Errorf("%d pages before the last", pages)
			}
			break
		}
		q.From = next
	}
	if len(seqs) != 2 || seqs[0] != -1 || seqs[1] != last {
		t.Errorf("got contexts of steps %v, want those of -1 and %d", seqs, last)
	}
}

func TestAPageOfContextsEndsAtItsBytes(t *testing.T) {
	list := []store.ContextStep{
		{Seq: -1, Context: store.Value("12345")}, {Seq: 3, Context: store.Value("67")},
		{Seq: 7, Context: store.Value("8")},
	}
	for bytes, want := range []int32{4, 4, 4, 4, 4, 4, 4, 8, 99} {
		page, next, err := Contexts(store.ContextsQuery{Bytes: bytes}, list, 99,
			func(v store.Value) ([]byte, error) { return v, nil })
		if err != nil || next != want {
			t.Errorf("%d bytes: %d contexts, go on at %d (%v), want %d", bytes, len(page), next, err,
				want)
		}
	}
	broken := errors.New("broken")
	if _, _, err := Contexts(store.ContextsQuery{Bytes: 9}, list, 0,
		func(store.Value) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
