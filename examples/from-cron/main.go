// From-cron does in the background what a program did with robfig/cron (before.go): a backup every
// night, a refresh every ten minutes. README.md compares the two.
package main

import (
	"context"
	"errors"
	"log"
	"os/signal"
	"syscall"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// Backup is what the tasks of a backup carry.
type Backup struct{ Database string }

var (
	backups   = rota.Define[Backup]("backups")
	refreshes = rota.Define[struct{}]("refreshes")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	node, err := rota.Open(ctx, rota.Config{Store: "sqlite:jobs.db"})
	if err != nil {
		log.Fatal(err)
	}
	handle(node, backup, refresh)
	if err := plan(ctx, node); err != nil {
		log.Fatal(errors.Join(err, node.Close()))
	}
	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// handle says what is done.
func handle(
	to rota.Handlers, backup func(ctx context.Context, database string) error,
	refresh func(ctx context.Context) error,
) {
	rota.Handle(to, backups, func(ctx context.Context, t rota.Task[Backup]) rota.Outcome {
		if err := backup(ctx, t.Args.Database); err != nil {
			return rota.Retry(err) // again tonight
		}
		return rota.Finish(nil)
	})
	rota.Handle(to, refreshes, func(ctx context.Context, t rota.Task[struct{}]) rota.Outcome {
		if err := refresh(ctx); err != nil {
			return rota.Fail(err) // ten minutes later it is tried anyway
		}
		return rota.Finish(nil)
	})
}

// planner is a node, or a client of one.
type planner interface {
	PutSchedule(
		ctx context.Context, name string, change client.ScheduleChange,
	) (client.Schedule, error)
}

// plan says when. What an operator has paused or set since stays: only what is named is changed.
func plan(ctx context.Context, p planner) error {
	_, err := p.PutSchedule(ctx, "backup", client.ScheduleChange{
		Cron: new("30 2 * * *"), Zone: new("Europe/Berlin"), Overlap: new(task.OverlapSkip),
		Queue: &backups.Queue, Context: backups.New(Backup{"shop"}).Context,
	})
	if err != nil {
		return err
	}
	_, err = p.PutSchedule(ctx, "refresh", client.ScheduleChange{
		Cron: new("@every 10m"), Overlap: new(task.OverlapSkip), Misfire: new(task.MisfireSkip),
		Queue: &refreshes.Queue,
	})
	return err
}

func backup(_ context.Context, database string) error {
	log.Println("backup of", database)
	return nil
}

func refresh(context.Context) error {
	log.Println("refreshed")
	return nil
}
