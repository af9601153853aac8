package rotaotel

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rotahq/rota/task"
)

// What the meta of a task calls the two strings by which a trace travels, as W3C does.
const (
	parentName = "traceparent"
	stateName  = "tracestate"
)

// What a task's meta may be; see docs/workers.md.
const (
	maxStrings = 16
	maxString  = 256     // bytes
	maxMeta    = 2 << 10 // bytes of all of it as JSON
)

// carried is the key of the meta of the task whose handler a context belongs to: children that it
// submits have that, too.
type carried struct{}

// spanOf is the span that a task's meta names; it is not valid when there is none, or none that is
// well formed.
func spanOf(meta map[string]string) trace.SpanContext {
	if meta[parentName] == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(meta))
	return trace.SpanContextFromContext(ctx)
}

// traced are the submissions with the span of ctx in their meta, but for those that name one
// themselves, or that have no room for it. parents is the meta that they have besides, as children.
// What it was given stays as it is.
func traced(
	ctx context.Context, tasks []task.Submission, parents map[string]string,
) []task.Submission {
	strings := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, strings)
	if len(strings) == 0 {
		return tasks
	}
	strings[stateName] = cutState(strings[stateName])
	if strings[stateName] == "" && parents[stateName] == "" { // else it is none of this trace
		delete(strings, stateName)
	}
	alone := map[string]string(strings) // of all that have no meta
	if !fits(alone, parents) {
		alone = nil
	}
	tasks = slices.Clone(tasks)
	for i := range tasks {
		own := tasks[i].Meta
		switch _, said := own[parentName]; {
		case said:
		case len(own) == 0:
			tasks[i].Meta = alone
		default:
			all := maps.Clone(own)
			maps.Copy(all, strings)
			if fits(all, parents) {
				tasks[i].Meta = all
			}
		}
	}
	return tasks
}

// cutState is as much of a tracestate as a string of a task holds: what is too long loses its last
// members, the eldest ones.
func cutState(state string) string {
	for len(state) > maxString {
		last := strings.LastIndexByte(state, ',')
		state = state[:max(last, 0)]
	}
	return state
}

// fits tells whether a task may carry own, and of parents what own does not name.
func fits(own, parents map[string]string) bool {
	n, size := 0, 1
	add := func(name, text string) {
		n++
		size += len(name) + len(text) + len(`"":"",`) + strings.Count(text, `"`) +
			strings.Count(text, `\`)
	}
	for name, text := range own {
		add(name, text)
	}
	for name, text := range parents {
		if _, named := own[name]; !named {
			add(name, text)
		}
	}
	return n <= maxStrings && size <= maxMeta
}
