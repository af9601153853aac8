package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota"
)

// Mail is what the tasks of the queue mails carry.
type Mail struct{ To, Text string }

var deliver = rota.Define[Mail]("mails")

// send is the program's way of sending mails. The key is the same in every attempt.
type send func(ctx context.Context, key, to, text string) error

// print is a way for those who only try the example.
func print(_ context.Context, key, to, text string) error {
	fmt.Printf("mail %s to %s: %s\n", key, to, text)
	return nil
}

// mails are those that somebody gets who signs up: one now, one a day later. Who signs up twice
// gets them once.
func mails(to string) []rota.Submission {
	return []rota.Submission{
		deliver.New(Mail{to, "Welcome!"}, rota.Submission{Key: "welcome " + to}),
		deliver.New(Mail{to, "How do you like it?"},
			rota.Submission{Key: "question " + to, Delay: 24 * time.Hour}),
	}
}

// deliverBy is the handler of mails.
func deliverBy(send send) func(context.Context, rota.Task[Mail]) rota.Outcome {
	return func(ctx context.Context, t rota.Task[Mail]) rota.Outcome {
		if err := send(ctx, t.ID.String(), t.Args.To, t.Args.Text); err != nil {
			return rota.Retry(err) // after 1, 2, 4 … seconds, up to five times
		}
		return rota.Finish(nil)
	}
}
