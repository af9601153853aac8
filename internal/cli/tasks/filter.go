package tasks

import (
	"regexp"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// filterFlags select tasks.
type filterFlags struct {
	queue, state, stage, worker, key, since, until, matching string

	meta app.MetaFlag
}

func (f *filterFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.queue, "queue", "", "tasks of this `queue`")
	s.StringVar(&f.state, "state", "", "tasks in this `state`: "+stateWords())
	app.Complete(cmd, "state", strings.Split(stateWords(), ", ")...)
	s.StringVar(&f.stage, "stage", "", "tasks in this `stage`")
	s.StringVar(&f.worker, "worker", "", "tasks that this `worker` has, or had last")
	s.StringVar(&f.key, "key", "", "the task with this `key`")
	s.Var(&f.meta, "meta", "tasks that carry this `name=text`; repeat it for more")
	s.StringVar(&f.matching, "error", "",
		"tasks whose error this regular `expression` (RE2) matches somewhere")
	s.StringVar(&f.since, "since", "",
		"created at this `time` or later: RFC 3339, or an age like 90m or 2d")
	s.StringVar(&f.until, "until", "", "created before this `time`: RFC 3339, or an age like 90m or 2d")
}

// filterNames are the flags that select tasks.
func filterNames() []string {
	return []string{
		"queue", "state", "stage", "worker", "key", "meta", "error", "since", "until",
	}
}

func stateWords() string {
	words := make([]string, len(task.States))
	for i, s := range task.States {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// filter is the filter that the flags ask for.
func (f *filterFlags) filter(now time.Time) (client.TaskFilter, error) {
	state := task.State(f.state)
	if f.state != "" && !state.Valid() {
		return client.TaskFilter{},
			usage.Errorf("--state %q: want one of %s", f.state, stateWords())
	}
	since, err := app.Moment("--since", f.since, now)
	if err != nil {
		return client.TaskFilter{}, err
	}
	until, err := app.Moment("--until", f.until, now)
	if err != nil {
		return client.TaskFilter{}, err
	}
	if _, err := regexp.Compile(f.matching); err != nil {
		return client.TaskFilter{}, usage.Errorf("--error %q: %v", f.matching, err)
	}
	return client.TaskFilter{
		Queue: f.queue, State: state, Stage: f.stage, Worker: f.worker, Key: f.key,
		Meta: f.meta.Strings(), Since: since, Until: until, Error: f.matching,
	}, nil
}
