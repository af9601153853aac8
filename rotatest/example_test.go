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

// A mailer, as a program has it.
type Mail struct{ To string }

var mail = rota.Define[Mail]("mail")

// handleMail is what the program calls with its node, and its tests with a rig.
func handleMail(to rota.Handlers) {
	rota.Handle(to, mail, func(_ context.Context, t rota.Task[Mail]) rota.Outcome {
		if t.Attempt == 1 {
			return rota.RetryAfter(time.Hour, errors.New("the line is busy"))
		}
		return rota.Finish("sent")
	})
}

// A handler with its queue: what it was given, and what it said last.
func TestExampleOfAnOutcome(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handleMail(r)
		r.Submit(t.Context(), mail.New(Mail{To: "ann"}))
		r.WorkAll(t.Context()) // all that is due: the first attempt
		id := rotatest.RequireSubmitted(t, r, mail, Mail{To: "ann"})
		r.Advance(time.Hour) // the second one
		rotatest.RequireOutcome(t, r, id, rota.Finish("sent"))
	})
}

// All that handlers did, against a file that ROTATEST_UPDATE=1 writes.
func TestExampleOfATimeline(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handleMail(r)
		r.Submit(t.Context(), mail.New(Mail{To: "ann"}), mail.New(Mail{To: "bob"}))
		r.Advance(2 * time.Hour)
		rotatest.RequireTimeline(t, r, "testdata/mails.txt")
	})
}

// In real time, as beside a server of the test's; and handlers without types.
func TestExampleInRealTime(t *testing.T) {
	r := rotatest.New(t)
	done := func(context.Context, task.Handout) rota.Outcome { return rota.Finish(nil) }
	r.Handle("reports", done)
	r.HandleStage("orders", "pack", done)
	r.HandleStages("letters", worker.Stages{"write": done, "send": done})
	r.HandleHooks("bills", worker.Hooks{Process: done})
	r.HandleFinal("bills-dead", func(context.Context, task.FinalNotice) error { return nil })
	r.Submit(t.Context(), rota.Submission{Queue: "orders", Stage: "pack"})
	r.WorkAll(t.Context())
	if r.Timeline() == "" {
		t.Error("nothing was done")
	}
}
