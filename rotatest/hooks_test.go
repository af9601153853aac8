package rotatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// How tasks died is told by tasks of another queue: all is worked when these are done, too.
func TestWorkAllWaitsForFinalNotices(t *testing.T) {
	for name, final := range map[string]string{"its own": "", "another": "obituaries"} {
		t.Run(name, func(t *testing.T) {
			rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
				told := false
				r.HandleHooks("orders", worker.Hooks{
					Process: func(context.Context, task.Handout) task.Outcome {
						return rota.Fail(errors.New("no such order"))
					},
					Final: func(context.Context, task.Handout, task.Outcome) error {
						time.Sleep(time.Second)
						told = true
						return nil
					},
					FinalQueue: final,
				})
				submit(t, r, rota.Submission{Queue: "orders"})
				r.WorkAll(t.Context())
				if !told {
					t.Error("the end of the order was not told")
				}
			})
		})
	}
}
