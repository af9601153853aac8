package queues

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
)

func TestNodesThatDidNotTakeAChangeInAreNamed(t *testing.T) {
	var warned bytes.Buffer
	a := commands{&app.App{Output: term.Output{Err: &warned}}}
	if a.unheard(nil); warned.Len() > 0 {
		t.Errorf("warned of no node: %q", warned.String())
	}
	if a.unheard([]string{"b", "c"}); !strings.Contains(warned.String(), "at: b, c.") {
		t.Errorf("warned by %q", warned.String())
	}
}
