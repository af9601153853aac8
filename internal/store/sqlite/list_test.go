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
		"inStretch": inStretch, "inNarrow": inNarrow,
		"comparedNarrow": comparedNarrow,
		"batchesBelow":   batchesBelow, "spansBelow": spansBelow, "spansThat": spansThat,
		"eventsAfter": eventsAfter, "newestRuns": newestRuns, "newestMarks": newestMarks,
		"marksBelow": marksBelow, "findFact": findFact, "packBelow": packBelow,
		"looksDue": looksDue, "freeSpans": freeSpans, "handedOut": handedOut,
		"contextSteps": contextSteps, "contextAt": contextAt,
	} {
		var plan []string
		err := s.read(t.Context(), func(c *conn) error {
			var err error
			plan, err = c.planOf(query)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range plan {
			through := strings.HasPrefix(line, "SCAN ")
			for _, rest := range []string{"SCAN c", "SCAN b", "SCAN s", "SCAN w",
				"SCAN json_each VIRTUAL TABLE",
				"SCAN (subquery", "SCAN 64-ROW VALUES CLAUSE",
				"SCAN 8-ROW VALUES CLAUSE"} {
				// what was read before, or came with the call, or the numbers of a pack
				through = through &&
					!(line == rest || strings.HasPrefix(line, rest+" ") ||
						strings.HasPrefix(line, rest+"-"))
			}
			if name == "newestRuns" && strings.HasPrefix(line, "SCAN step") ||
				name == "newestMarks" && (line == "SCAN m" || strings.HasPrefix(line, "SCAN mark USING INDEX")) {
				// from its end, as far as its limit
				through = false
			}
			// of one pack at a time
			sorts := strings.Contains(line, "TEMP B-TREE") && name != "inStretch"
			if through || sorts {
				t.Errorf("%s: %s, in\n\t%s", name, line, strings.Join(plan, "\n\t"))
			}
		}
	}
}

// planOf is how SQLite would go about a statement, whatever it is given.
func (c *conn) planOf(query string) (lines []string, err error) {
	query = "EXPLAIN QUERY PLAN " + query
	st, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	err = c.each(query, func(st *sqlite.Stmt) bool {
		lines = append(lines, st.ColumnText(3))
		return true
	}, make([]any, st.BindParamCount())...)
	return lines, err
}
