//go:build ignore

// The program as it was with robfig/cron 3.0.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/robfig/cron/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	logger := cron.DefaultLogger
	c := cron.New(cron.WithChain(cron.Recover(logger), cron.SkipIfStillRunning(logger)))
	if _, err := c.AddFunc("CRON_TZ=Europe/Berlin 30 2 * * *", func() {
		if err := backup(ctx, "shop"); err != nil {
			log.Printf("backup: %v", err) // the next try is tomorrow's
		}
	}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.AddFunc("@every 10m", func() {
		if err := refresh(ctx); err != nil {
			log.Printf("refresh: %v", err)
		}
	}); err != nil {
		log.Fatal(err)
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
}

func backup(_ context.Context, database string) error {
	log.Println("backup of", database)
	return nil
}

func refresh(context.Context) error {
	log.Println("refreshed")
	return nil
}
