//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

// A log counts its streams as they stand in it: PostgreSQL takes no text that is not UTF-8.
func TestLogCountsWhatItKeeps(t *testing.T) {
	c := join(t, used.fresh(t, Config{NoNotify: true}, ""))
	id := task.ID{Batch: c.submit(c.batch(1, 1, true))[0].Batch}
	for _, stream := range []string{strings.Repeat("\xff", logHalf+1), "stdout"} {
		line := task.LogLine{Stream: stream, Text: "x"}
		if err := c.AppendLog(t.Context(), id, []task.LogLine{line}); err != nil {
			t.Fatal(err)
		}
	}
	page := must(c.Store.Log(t.Context(), id, 0, 9))(t)
	if len(page.Lines) != 2 || page.Lines[0].Stream != "\uFFFD" {
		t.Errorf("got %d lines: %q", len(page.Lines), page.Lines)
	}
}
