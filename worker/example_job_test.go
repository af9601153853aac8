package worker_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// desk is a queue that assigns one job, and ends it when it is said to run. Programs use a client
// or a node here.
type desk struct {
	shelf
	assigned bool
}

func (d *desk) Beat(_ context.Context, b task.Beat) (answer task.BeatAnswer, err error) {
	switch {
	case b.Leaving:
	case !d.assigned:
		d.assigned = true
		answer.Jobs = task.Orders{Reset: true, Add: []task.Assignment{{
			Group: "feeds", Job: "bbc", Token: task.JobToken{Number: 41}, Load: task.Unit,
			Spec: json.RawMessage(`{"every":"5s"}`),
		}}}
	case len(b.Jobs) == 1 && b.Jobs[0].State == task.JobRunning:
		fmt.Println("beat: it is", b.Jobs[0].State)
		answer.Jobs.End = b.Jobs
	case len(b.Jobs) == 0:
		d.stop()
	}
	return answer, nil
}

func ExampleWorker_HandleJob() {
	ctx, stop := context.WithCancel(context.Background())
	w, err := worker.New(worker.Config{
		Queue: &desk{shelf: shelf{stop: stop}}, Name: "w1", Capacity: 60,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.HandleJob("feeds", func(ctx context.Context, a task.Assignment) error {
		fmt.Printf("follow %s as %s says, fence %d\n", a.Job, a.Spec, a.Token.Number)
		worker.Alive(ctx) // again and again, for a group with a job_silence
		<-ctx.Done()
		fmt.Println("end:", context.Cause(ctx))
		return nil
	})
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// follow bbc as {"every":"5s"} says, fence 41
	// beat: it is running
	// end: the job ended, or moved to another worker
}

func ExampleJobCommand() {
	follow, err := worker.JobCommand(worker.CommandConfig{
		Argv: []string{"sh", "-c", `test $ROTA_FENCE -gt 40 && echo "no source $ROTA_JOB" >&2`},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := task.Assignment{Group: "feeds", Job: "bbc", Token: task.JobToken{Number: 41}}
	fmt.Println(follow(context.Background(), a)) // a command that ends by itself has failed
	// Output: exit status 0: no source bbc
}
