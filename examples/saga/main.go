// Saga books a trip, has it paid, and ships the papers: three steps at three services, of which none
// can be rolled back. If one fails for good, what was done before is undone, in reverse order.
// README.md tells how to try it, and what holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

// Step is what each task of a trip carries.
type Step struct{ Trip, Service string }

// services are those that a trip needs, in this order; each of them is a queue.
var services = []string{"book", "pay", "ship"}

var undo = rota.Define[Step]("undo")

func main() {
	trip := flag.String("trip", "rome", "where to")
	broken := flag.String("broken", "ship", "the service that fails: book, pay, ship or none")
	file := flag.String("file", "saga.db", "file for what is under way")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	said, err := run(ctx, *file, *trip, &world{broken: *broken, say: log.Printf})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(said)
}

// saga is a trip as tasks, to be submitted in one call: each step waits for the one before to be
// done; the last task waits for all of them to end, however they do.
func saga(trip string) (tasks []rota.Submission) {
	for i, service := range services {
		of := rota.Submission{Ref: service}
		if i > 0 {
			of.After = []string{services[i-1]}
		}
		tasks = append(tasks, rota.Define[Step](service).New(Step{trip, service}, of))
	}
	of := rota.Submission{After: services, If: task.IfEnded}
	return append(tasks, undo.New(Step{Trip: trip}, of))
}

// run opens a node, has a trip done, and answers what became of it.
func run(ctx context.Context, file, trip string, w *world) (said string, err error) {
	node, err := rota.Open(ctx, rota.Config{Store: "sqlite:" + file, Name: "saga"})
	if err != nil {
		return "", err
	}
	handle(node, w)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	got, err := node.Submit(ctx, saga(trip)...)
	if err != nil {
		return "", err
	}
	v, err := node.Task(ctx, got[len(got)-1].ID, time.Minute)
	if err == nil && v.State != task.Done {
		err = fmt.Errorf("the trip is %s: %s", v.State, v.Error)
	}
	return string(v.Result), err
}

// handle says how steps are done and undone.
func handle(to rota.Handlers, w *world) {
	for _, service := range services {
		step := rota.Define[Step](service)
		rota.Handle(to, step, func(_ context.Context, t rota.Task[Step]) rota.Outcome {
			receipt, err := w.do(t.Args)
			if err != nil {
				return rota.Fail(err)
			}
			return rota.Finish(receipt)
		})
	}
	rota.Handle(to, undo, func(_ context.Context, t rota.Task[Step]) rota.Outcome {
		done := slices.DeleteFunc(slices.Clone(t.After), func(p task.Prior) bool {
			return p.State != task.Done
		})
		if len(done) == len(t.After) {
			return rota.Finish("on the way to " + t.Args.Trip)
		}
		var undone []string
		for _, p := range slices.Backward(done) {
			// again after a retry: a service knows what it has undone by the receipt
			if err := w.undo(p.Ref, string(p.Result)); err != nil {
				return rota.Retry(err)
			}
			undone = append(undone, p.Ref)
		}
		return rota.Finish(fmt.Sprintf("no trip to %s; undone: %s", t.Args.Trip,
			strings.Join(undone, ", ")))
	})
}

// world stands for the services.
type world struct {
	broken string // the service that fails for good
	say    func(format string, args ...any)
}

// do does a step, and answers the receipt by which it can be undone.
func (w *world) do(s Step) (receipt string, err error) {
	if s.Service == w.broken {
		return "", fmt.Errorf("%s: not today", s.Service)
	}
	w.say("%s %s", s.Service, s.Trip)
	return s.Service + " " + s.Trip, nil
}

func (w *world) undo(service, receipt string) error {
	w.say("undo %s by receipt %s", service, receipt)
	return nil
}
