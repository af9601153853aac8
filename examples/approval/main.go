// Approval is a service that asks people: an expense is handed in over HTTP, its manager is asked,
// reminded every day, and decides; after three reminders nobody is asked any more. What waits
// takes no worker's place, and survives restarts. README.md tells how to try it, and what holds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

// Expense is what its task carries.
type Expense struct {
	Who, What string
	Cents     int
	Reminders int
}

// Decision is what the signal of the same name carries.
type Decision struct {
	Approved bool
	By       string
}

const (
	decided = "decided" // the signal
	most    = 3         // reminders
)

var (
	ask    = rota.Define[Expense]("expenses")
	remind = rota.Type[Expense]{Queue: "expenses", Stage: "remind"}
	decide = rota.Type[Expense]{Queue: "expenses", Stage: "decide"}
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	file := flag.String("file", "approval.db", "file for what is under way")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *file); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, file string) error {
	node, err := rota.Open(ctx, rota.Config{Store: "sqlite:" + file, Name: "approval"})
	if err != nil {
		return err
	}
	mail := func(to, text string) error { log.Printf("mail to %s: %s", to, text); return nil }
	handle(node, 24*time.Hour, mail)
	server := http.Server{Addr: listen, Handler: pages(node), ReadTimeout: time.Minute}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return node.Run(ctx) })
	all.Go(func() error { <-ctx.Done(); return server.Shutdown(context.WithoutCancel(ctx)) })
	all.Go(server.ListenAndServe)
	return all.Wait()
}

// handle says what becomes of an expense, and for how long a manager is waited for.
func handle(to rota.Handlers, patience time.Duration, mail func(to, text string) error) {
	wait := task.Await{Signal: decided, Timeout: patience, Else: remind.Stage}
	rota.Handle(to, ask, func(ctx context.Context, t rota.Task[Expense]) rota.Outcome {
		e := t.Args
		text := fmt.Sprintf("%s wants %d cents for %s: %s", e.Who, e.Cents, e.What, t.ID)
		if err := mail("manager", text); err != nil {
			return rota.Retry(err)
		}
		return decide.NextOn(wait, e)
	})
	rota.Handle(to, remind, func(ctx context.Context, t rota.Task[Expense]) rota.Outcome {
		e := t.Args
		if e.Reminders == most {
			return rota.Finish("nobody decided")
		}
		e.Reminders++
		if err := mail("manager", fmt.Sprintf("still waiting: %s", t.ID)); err != nil {
			return rota.Retry(err)
		}
		return decide.NextOn(wait, e)
	})
	rota.Handle(to, decide, func(ctx context.Context, t rota.Task[Expense]) rota.Outcome {
		var d Decision
		if err := json.Unmarshal(t.Signal.Payload, &d); err != nil {
			return rota.Fail(err)
		}
		word := map[bool]string{true: "approved", false: "refused"}[d.Approved]
		if err := mail(t.Args.Who, word); err != nil {
			return rota.Retry(err)
		}
		return rota.Finish(fmt.Sprintf("%s by %s", word, d.By))
	})
}

// pages take expenses and decisions.
func pages(node *rota.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /expenses", func(w http.ResponseWriter, r *http.Request) {
		var e Expense
		if !read(w, r, &e) {
			return
		}
		got, err := node.Submit(r.Context(), ask.New(e))
		if err != nil {
			refuse(w, err)
			return
		}
		fmt.Fprintln(w, got[0].ID)
	})
	mux.HandleFunc("POST /expenses/{id}/decision", func(w http.ResponseWriter, r *http.Request) {
		var d Decision
		id, err := task.ParseID(r.PathValue("id"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if !read(w, r, &d) {
			return
		}
		payload, _ := json.Marshal(d)
		// the first decision counts, however often somebody clicks
		if _, err := node.Signal(r.Context(), task.SignalRequest{
			Task: id, Name: decided, Key: decided, Payload: payload,
		}); err != nil {
			refuse(w, err)
		}
	})
	mux.Handle("/rota/", http.StripPrefix("/rota", node.Handler()))
	return mux
}

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 10_000)).Decode(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	}
	return err == nil
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, rota.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, rota.ErrConflict):
		status = http.StatusConflict
	}
	http.Error(w, err.Error(), status)
}
