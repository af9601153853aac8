// From-river mails invoices as a program did with River (before.go): by a node inside it, on the
// same PostgreSQL database. README.md compares the two.
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

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/worker"
)

// Mail is what the tasks carry that mail an invoice.
type Mail struct{ Invoice int64 }

var (
	mails   = rota.Define[Mail]("mails")
	reminds = rota.Define[struct{}]("reminds")
)

func main() {
	database := flag.String("db", "postgres://localhost/shop", "the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := program{send: send}
	if err := p.open(ctx, *database); err != nil {
		log.Fatal(err)
	}
	defer p.db.Close()
	if err := p.invoice(ctx, "ada", 1999); err != nil {
		log.Fatal(errors.Join(err, p.node.Close()))
	}
	if err := p.node.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// program is what River's client and its workers were.
type program struct {
	db   *pgxpool.Pool
	node *rota.Node
	send func(ctx context.Context, invoice int64) error
}

// open makes rota's tables, too, where there are none.
func (p *program) open(ctx context.Context, database string) (err error) {
	if p.db, err = pgxpool.New(ctx, database); err != nil {
		return err
	}
	p.node, err = rota.Open(ctx, rota.Config{Store: database, Capacity: 8})
	if err != nil {
		p.db.Close()
		return err
	}
	rota.Handle(p.node, mails, p.mail)
	rota.Handle(p.node, reminds, func(ctx context.Context, _ rota.Task[struct{}]) rota.Outcome {
		if err := remind(ctx, p.db); err != nil {
			return rota.Retry(err)
		}
		return rota.Finish(nil)
	})
	_, err = p.node.PutQueue(ctx, mails.Queue,
		client.QueueChange{MaxAttempts: new(5), Timeout: new(time.Minute)})
	if err == nil {
		_, err = p.node.PutSchedule(ctx, "remind",
			client.ScheduleChange{Cron: new("@every 24h"), Queue: &reminds.Queue})
	}
	if err != nil {
		p.db.Close()
		return errors.Join(err, p.node.Close())
	}
	return nil
}

// mail mails an invoice. That it is mailed and that the task is done commit together.
func (p *program) mail(ctx context.Context, t rota.Task[Mail]) rota.Outcome {
	switch err := p.send(ctx, t.Args.Invoice); {
	case errors.Is(err, errNoAddress):
		return rota.Fail(err)
	case errors.Is(err, errBusy):
		return rota.Snooze(time.Minute)
	case err != nil:
		return rota.Retry(err)
	}
	done := rota.Finish(nil)
	if err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, mailed, t.Args.Invoice); err != nil {
			return err
		}
		return worker.FinishTx(ctx, tx, done)
	}); err != nil {
		return rota.Retry(err)
	}
	return done
}

// invoice writes an invoice, which is mailed after that.
func (p *program) invoice(ctx context.Context, customer string, cents int) error {
	return pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		var id int64
		if err := tx.QueryRow(ctx, insert, customer, cents).Scan(&id); err != nil {
			return err
		}
		_, err := p.node.SubmitTx(ctx, tx, mails.New(Mail{id}))
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
