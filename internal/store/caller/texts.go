package caller

import (
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// Text is a JSON text, and what is peculiar to it.
type Text struct{ What, JSON string }

// Awkward are JSON texts that a store which looks into them would change.
func Awkward() []Text {
	return []Text{
		{What: "a number beyond 2^53", JSON: "9007199254740993"},
		{What: "a number beyond all", JSON: "1e400"},
		{What: "a line separator", JSON: "\"\u2028\u2029\""},
		{What: "an escape", JSON: `"\u0000\ud83d\ude00\/"`},
		{What: "duplicate names", JSON: `{"a":1,"a":2}`},
		{What: "spaces", JSON: " {\n\t\"a\" : [ ] } \r\n"},
		{What: "an empty string", JSON: `""`},
		{What: "null", JSON: `null`},
		{What: "other scripts", JSON: `"日本語 ☃ é e\u0301"`},
		{What: "quotes of SQL", JSON: `"'; DROP TABLE task; --"`},
	}
}

// JSON is a JSON string of n bytes, no two parts of which are alike.
func JSON(n int) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d.", i)
	}
	return b.String()[:n-1] + `"`
}

// LogLines makes numbered lines of equal width.
func LogLines(at time.Time, from, n, width int) []task.LogLine {
	lines := make([]task.LogLine, n)
	for i := range lines {
		at := at.Add(time.Duration(from+i) * time.Millisecond)
		lines[i] = task.LogLine{
			Time: at, Stream: "stdout", Text: fmt.Sprintf("%0*d", width, from+i),
		}
	}
	return lines
}
