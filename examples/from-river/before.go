//go:build ignore

// The program as it was with River 0.51.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// MailArgs are of the job that mails an invoice.
type MailArgs struct {
	Invoice int64
}

func (MailArgs) Kind() string { return "mail" }

func (MailArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: 5, UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

// RemindArgs are of the job that looks for invoices that were not mailed.
type RemindArgs struct{}

func (RemindArgs) Kind() string { return "remind" }

type mailWorker struct {
	river.WorkerDefaults[MailArgs]
	db *pgxpool.Pool
}

func (*mailWorker) Timeout(*river.Job[MailArgs]) time.Duration { return time.Minute }

func (w *mailWorker) Work(ctx context.Context, job *river.Job[MailArgs]) error {
	switch err := send(ctx, job.Args.Invoice); {
	case errors.Is(err, errNoAddress):
		return river.JobCancel(err)
	case errors.Is(err, errBusy):
		return river.JobSnooze(time.Minute)
	case err != nil:
		return err
	}
	return pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, mailed, job.Args.Invoice); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

type remindWorker struct {
	river.WorkerDefaults[RemindArgs]
	db *pgxpool.Pool
}

func (w *remindWorker) Work(ctx context.Context, _ *river.Job[RemindArgs]) error {
	return remind(ctx, w.db)
}

func main() {
	database := flag.String("db", "postgres://localhost/shop", "the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	db, err := pgxpool.New(ctx, *database)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	driver := riverpgxv5.New(db)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		log.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &mailWorker{db: db})
	river.AddWorker(workers, &remindWorker{db: db})
	client, err := river.NewClient(driver, &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
		Workers: workers,
		PeriodicJobs: []*river.PeriodicJob{river.NewPeriodicJob(
			river.PeriodicInterval(24*time.Hour),
			func() (river.JobArgs, *river.InsertOpts) { return RemindArgs{}, nil }, nil,
		)},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		log.Fatal(err)
	}
	if err := invoice(ctx, db, client, "ada", 1999); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	if err := client.Stop(context.WithoutCancel(ctx)); err != nil {
		log.Fatal(err)
	}
}

// invoice writes an invoice, which is mailed after that.
func invoice(
	ctx context.Context, db *pgxpool.Pool, client *river.Client[pgx.Tx], customer string, cents int,
) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var id int64
		if err := tx.QueryRow(ctx, insert, customer, cents).Scan(&id); err != nil {
			return err
		}
		_, err := client.InsertTx(ctx, tx, MailArgs{id}, nil)
		return err
	})
}

const (
	insert = "INSERT INTO invoices (customer, cents) VALUES ($1, $2) RETURNING id"
	mailed = "UPDATE invoices SET mailed = now() WHERE id = $1"
)

var (
	errNoAddress = errors.New("the customer has no address")
	errBusy      = errors.New("the mail server is busy")
)

func send(_ context.Context, invoice int64) error {
	log.Println("mailed invoice", invoice)
	return nil
}

func remind(ctx context.Context, db *pgxpool.Pool) error {
	var n int
	err := db.QueryRow(ctx, "SELECT count(*) FROM invoices WHERE mailed IS NULL").Scan(&n)
	log.Println(n, "invoices are not mailed")
	return err
}
