package sqlite

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
)

// What lists read they find by an index, in order: no statement goes through a table or sorts what
// it found before it stops at its limit.
func TestListsReadTablesByIndexesOnly(t *testing.T) {
	s := open(t, Config{})
	for name, query := range map[string]string{
		"byKey": byKey, "byFinal": byFinal, "byRunning": byRunning, "byWorker": byWorker,
		"inStretch": inStretch, "inStretches": inStretches,
		"batchesBelow": batchesBelow, "spansBelow": spansBelow, "spansThat": spansThat,
		"eventsAfter": eventsAfter, "newestRuns": newestRuns,
	} {
		var plan []string
		err := s.read(t.Context(), func(c *conn) error {
			return c.each("EXPLAIN QUERY PLAN "+query, func(st *sqlite.Stmt) bool {
				plan = append(plan, st.ColumnText(3))
				return true
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range plan {
			through := strings.HasPrefix(line, "SCAN ")
			for _, rest := range []string{"SCAN c", "SCAN b", "SCAN w VIRTUAL TABLE",
				"SCAN (subquery"} {
				// what was read before, or came with the call
				through = through &&
					!(line == rest || strings.HasPrefix(line, rest+" ") ||
						strings.HasPrefix(line, rest+"-"))
			}
			if strings.HasPrefix(line, "SCAN step") && name == "newestRuns" {
				// from its end, as far as its limit
				through = false
			}
			if through || strings.Contains(line, "TEMP B-TREE") {
				t.Errorf("%s: %s, in\n\t%s", name, line, strings.Join(plan, "\n\t"))
			}
		}
	}
}
