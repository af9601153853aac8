package supervise

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/store"
)

// What a plan does is told with its reason, but for what the store refused, and for the end of a
// move, which was told of when it began.
func TestMovesAreToldWithTheirReasons(t *testing.T) {
	for name, c := range map[string]struct {
		jobs        string
		replicas    int
		workers     string
		assignments string
		change      func(p *snapshot)
		refused     []store.Refused
		want        string
	}{
		"nothing": {jobs: "a", workers: "v", assignments: "a/0@v running"},
		"new":     {jobs: "a", workers: "v", want: "start"},
		"its worker is dead": {jobs: "a", workers: "v -w", assignments: "a/0@w running",
			want: "start, stop gone"},
		"it has no worker any more": {jobs: "a", workers: "v", assignments: "a/0@w running",
			change: func(p *snapshot) { p.others["w"] = true }, want: "start, stop gone"},
		"removed": {workers: "v", assignments: "a/0@v running", want: "stop removed"},
		"surplus": {jobs: "a", workers: "v w", assignments: "a/0@v running a/1@w running",
			want: "stop surplus"},
		"drained": {jobs: "a", workers: "v w!", assignments: "a/0@w running",
			want: "move drained"},
		"a move that arrives": {jobs: "a", workers: "v w!",
			assignments: "a/0@v running a/0@w moving"},
		"a move that fails": {jobs: "a", workers: "v w!",
			assignments: "a/0@v failed a/0@w moving", want: "stop failed"},
		"it failed": {jobs: "a", workers: "v w", assignments: "a/0@w failed",
			want: "move penalised"},
		"changed": {jobs: "a", workers: "v", assignments: "a/0@v running",
			change: func(p *snapshot) { p.jobs[0].Version = 9 }, want: "stop outdated"},
		"balance": {jobs: "a b", workers: "v w", assignments: "a/0@v running b/0@v running",
			want: "move balance"},
		"refused": {jobs: "a b", workers: "v", want: "start",
			refused: []store.Refused{{Place: store.Place{Job: "b", Worker: "v"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pictureOf(strings.Fields(c.jobs), c.workers, c.assignments)
			p.group.Replicas = max(c.replicas, 1)
			if c.change != nil {
				c.change(p)
			}
			in, err := p.decide(nil)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			in.moved(c.refused, func(change Change, why Why) {
				told = append(told, strings.TrimSpace(fmt.Sprint(change, " ", why)))
			})
			slices.Sort(told)
			if got := strings.Join(told, ", "); got != c.want {
				t.Errorf("told %q, want %q of %s", got, c.want, verbs(in))
			}
		})
	}
}
