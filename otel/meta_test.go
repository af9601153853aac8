package rotaotel

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// some is a context of a span that is sampled, with a state of so many members.
func some(t testing.TB, members int) trace.SpanContext {
	t.Helper()
	var list []string
	for i := range members {
		list = append(list, fmt.Sprintf("member%d=%s", i, strings.Repeat("x", 20)))
	}
	state, err := trace.ParseTraceState(strings.Join(list, ","))
	if err != nil {
		t.Fatal(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
		TraceState: state,
	})
}

// full is a meta of n strings.
func full(n, size int) map[string]string {
	meta := map[string]string{}
	for i := range n {
		meta[fmt.Sprintf("k%02d", i)] = strings.Repeat(`"`, size)
	}
	return meta
}

// Whatever tasks carry already, they and their children may carry what a trace adds: it is left out
// where it would be too much, and stands where there is room.
func TestATraceRefusesNoTask(t *testing.T) {
	for _, c := range []struct {
		name         string
		own, parents map[string]string
		members      int
		want         bool // it is in the trace
	}{
		{"nothing", nil, nil, 0, true},
		{"a state", nil, nil, 3, true},
		{"a long state", nil, nil, 32, true},
		{"some", full(3, 5), full(5, 2), 0, true},
		{"fifteen", full(15, 1), nil, 0, true},
		{"fourteen and a state", full(14, 1), nil, 1, true},
		{"sixteen", full(16, 1), nil, 0, false},
		{"sixteen of the parent", nil, full(16, 1), 0, false},
		{"sixteen of both", full(8, 1), full(16, 1), 0, false},
		{"sixteen with a trace", nil, withParent(full(15, 1)), 0, true},
		{"2 KiB", full(10, 97), nil, 0, false},
		{"2 KiB of the parent", nil, full(10, 97), 0, false},
		{"2 KiB of both", full(10, 97), full(10, 97), 0, false},
		{"another trace", map[string]string{parentName: "mine"}, nil, 3, false},
		{"no trace", map[string]string{parentName: ""}, nil, 3, false},
	} {
		ctx := trace.ContextWithSpanContext(t.Context(), some(t, c.members))
		given := []task.Submission{{Queue: "q", Meta: c.own}, {Queue: "q", Meta: c.own}}
		before := maps.Clone(c.own)
		got := traced(ctx, given, c.parents)
		if !maps.Equal(c.own, before) || !maps.Equal(given[1].Meta, before) {
			t.Errorf("%s: what was given has changed", c.name)
		}
		for _, s := range got {
			child := limits.WithMeta(s, c.parents)
			var wrong task.InvalidError
			limits.CheckMeta(child.Meta, &wrong, "meta")
			if err := wrong.Err(); err != nil {
				t.Errorf("%s: refused: %v", c.name, err)
			}
			span := spanOf(child.Meta)
			if in := span.SpanID() == (trace.SpanID{2}); in != c.want {
				t.Errorf("%s: in the trace: %v, want %v", c.name, in, c.want)
			}
			if c.want && c.members > 0 && span.TraceState().Len() == 0 {
				t.Errorf("%s: the state is lost", c.name)
			}
		}
	}
}

func withParent(meta map[string]string) map[string]string {
	meta[parentName] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	return meta
}

// A child of a task whose trace has a state is not given that of another trace.
func TestAStateGoesWithItsTrace(t *testing.T) {
	parents := map[string]string{parentName: "x", stateName: "old=1"}
	ctx := trace.ContextWithSpanContext(t.Context(), some(t, 0))
	child := limits.WithMeta(traced(ctx, []task.Submission{{}}, parents)[0], parents)
	if got := spanOf(child.Meta); got.TraceState().Len() != 0 || !got.IsValid() {
		t.Errorf("it carries %v", child.Meta)
	}
}

// A program that traces links OpenTelemetry's API, and what a worker links.
func TestTheModuleLinksNoSDK(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		".").CombinedOutput()
	if err != nil {
		t.Fatalf("list dependencies: %v\n%s", err, out)
	}
	links := strings.Fields(string(out))
	slices.Sort(links)
	want := []string{
		"github.com/cespare/xxhash/v2", "github.com/rotahq/rota", "github.com/rotahq/rota/otel",
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/trace", "golang.org/x/sys",
	}
	if got := slices.Compact(links); !slices.Equal(got, want) {
		t.Errorf("it links %q, want %q", got, want)
	}
}
