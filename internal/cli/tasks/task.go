package tasks

import (
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// commands are the commands that submit tasks, and show and steer them.
type commands struct{ *app.App }

// Commands are the commands that submit tasks, and show and steer them.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.submit(), c.task(), c.signal()}
}

func (a commands) task() *cobra.Command {
	return app.Family("task", "Show, follow, signal, cancel, replay, run and edit tasks",
		`Look at tasks and steer them. Ids are those that submit printed.

A task that failed for good, or used up its attempts, is dead: a dead letter, kept with its
steps and its log until it is replayed or its queue's --retention-dead has passed.`,
		`  rota task ls --state dead                # the dead letters
  rota task show 1pq3v0m7d2k5g10           # what became of each hand-out
  rota task contexts 1pq3v0m7d2k5g10       # what each stage was handed
  rota task explain 1pq3v0m7d2k5g10        # why it does not run
  rota task ls --stuck                     # what runs for suspiciously long
  rota task children 1pq3v0m7d2k5g10       # the tasks that it has submitted
  rota task tree 1pq3v0m7d2k5g10           # they and theirs, drawn
  rota task signal 1pq3v0m7d2k5g10 paid    # what it waits for has come
  rota task retry --queue mail             # all dead ones of a queue begin again
  rota task retry 1pq3v0m7d2k5g10          # one that is over, however it ended
  rota task run 1pq3v0m7d2k5g10            # one that waits for a time is due now`,
		a.list(), a.show(), a.explain(), a.logs(),
		a.act(act{
			verb: "cancel", past: "cancelled", short: "Cancel tasks",
			long: `Cancel tasks that are not finished. The state is cancelled at once; a worker that runs
the task hears of it with its next beat, and its late report is refused.`,
			one: (*client.Client).Cancel, tree: (*client.Client).CancelTree,
			all: (*client.Client).CancelAll,
		}),
		a.contexts(),
		a.children(),
		a.tree(),
		a.spawn(),
		a.taskSignal(),
		a.retry(),
		a.run(),
		a.edit(),
		a.remove())
}

// taskIDs parses the ids that a command was given, all before anything is done.
func taskIDs(args []string) ([]task.ID, error) {
	ids := make([]task.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = task.ParseID(arg); err != nil {
			return nil, usage.Errorf("%v", err)
		}
	}
	return ids, nil
}

// bare is what is wrong with a command's values, by their names alone; nil when nothing is.
func bare(e *task.InvalidError, place string) error {
	for i := range e.Fields {
		e.Fields[i].Location = strings.TrimPrefix(e.Fields[i].Location, place)
	}
	return e.Err()
}
