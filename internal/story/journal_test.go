package story

import "testing"

func TestJournalCountsLines(t *testing.T) {
	j := NewJournal(t.Output())
	log := j.Log().With("node", "n1")
	log.Error("the store is out of reach", "error", "no route")
	log.Info("the store answers again")
	for text, want := range map[string]int{"node=n1": 2, "level=ERROR": 1, "store": 2, "n2": 0} {
		if n := j.Count(text); n != want {
			t.Errorf("%q stands in %d lines, want %d", text, n, want)
		}
	}
}
