package top

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/internal/cli/clitest"
	"github.com/rotahq/rota/internal/top"
)

// The detail of a queue, and of a worker, has the last hour in as many columns as fit.
func TestTopDrawsTheLastHourOfQueuesAndWorkers(t *testing.T) {
	a, c, _, asked := clitest.Did(t)
	s := &source{a, c}
	for _, thing := range []top.Thing{
		{Screen: top.Overview, ID: "mail"}, {Screen: top.Queues, ID: "mail"},
		{Screen: top.Workers, ID: "w1"},
	} {
		for width, step := range map[int]string{60: "5m0s", 80: "2m0s", 120: "1m0s"} {
			text, err := s.Open(t.Context(), thing, width)
			if err != nil {
				t.Fatal(err)
			}
			text = ansi.Strip(text)
			if !strings.Contains(text, "\ndone  ") || !strings.Contains(text, "a column is ") {
				t.Errorf("%+v: nothing is drawn:\n%s", thing, text)
			}
			if asked.Get("step") != step {
				t.Errorf("%d columns: a step of %s, want %s", width, asked.Get("step"), step)
			}
			for line := range strings.Lines(text) {
				if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%d wide, of %d: %q", n, width, line)
				}
			}
		}
	}
}
