package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rotahq/rota/pool"
	"github.com/rotahq/rota/task"
)

// childTask is what a child is asked.
type childTask struct {
	Task    string `json:"task"`
	Queue   string `json:"queue"`
	Stage   string `json:"stage"`
	Attempt int    `json:"attempt"`
	Token   string `json:"token"`
	// null when there is none; the same JSON value, perhaps without its spaces
	Context json.RawMessage `json:"context"`
	// as ROTA_META has it; left out where there is none
	Meta map[string]string `json:"meta,omitempty"`
	// as ROTA_AFTER_FILE has it; left out where the task has not waited for others
	After json.RawMessage `json:"after,omitempty"`
}

// Children is a handler that has its tasks done by programs that stay: the processes of a pool (see
// [pool.Command]), each of which does one task after the other, where [Command] starts a process
// for each. It spares a quick task that start, some milliseconds. A request is
//
//	{"task": "…", "queue": "…", "stage": "…", "attempt": 1, "token": "…", "context": {…}}
//
// with "meta": {…} where the task carries some, and with "after": […] where it has waited for
// others, as the file that ROTA_AFTER_FILE names, and the result decides as the output file of a
// Command does:
//
//	{"result": {"outcome": "next", "stage": "verify", "context": {…}, "result": …, "delay": "10s"}}
//
// Each field may be left out; {"result": null} is done, and {"error": "…"} asks for a retry, as do
// a process that dies and a result that can't be read so. When the handler's context ends, the
// process is killed with its group. Standard error is not logged: it tells how a process died. A
// worker should have as many lanes as the pool has slots; more wait there. Whoever made the pool
// closes it, after Run.
func Children(p *pool.Pool[*pool.Child]) Handler {
	return func(ctx context.Context, t task.Handout) task.Outcome {
		said, err := pool.Ask[json.RawMessage](ctx, p, 1,
			childTask{t.ID.String(), t.Queue, t.Stage, t.Attempt, t.Token, t.Context, t.Meta,
				waited(&t)})
		if err != nil {
			return task.Retry(err)
		}
		if given(said) == nil {
			return task.Finish(nil)
		}
		o, err := parseOutput(said, task.Finish(nil))
		if err != nil {
			return task.Retry(fmt.Errorf("result: %w", err))
		}
		return o
	}
}
