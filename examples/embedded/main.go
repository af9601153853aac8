// Embedded is a server that was there before, with pages, metrics and a log of its own. Rota is put
// into it: what a request starts goes on in the background, survives a restart, and is tried again.
// mails.go has what is done in the background, README.md what was added where.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"net/mail"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	file := flag.String("file", "embedded.db", "file for what is done in the background")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		err = run(ctx, listener, *file, print)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listener net.Listener, file string, send send) error {
	metrics := prometheus.NewRegistry()
	node, err := rota.Open(ctx, rota.Config{Store: "sqlite:" + file, Name: "embedded"})
	if err != nil {
		return err
	}
	metrics.MustRegister(node.Collector())
	rota.Handle(node, deliver, deliverBy(send))
	node.Use(timed(metrics))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /signups", signup(node))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("/rota/", http.StripPrefix("/rota", node.Handler()))
	server := http.Server{Handler: mux, ReadTimeout: time.Minute}

	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return node.Run(ctx) })
	all.Go(func() error { <-ctx.Done(); return server.Shutdown(context.WithoutCancel(ctx)) })
	all.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return all.Wait()
}

// signup takes an address: when it answers, the mails to it are sure to be sent.
func signup(node *rota.Node) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var person struct{ Mail string }
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 10_000)).Decode(&person)
		if err == nil {
			_, err = mail.ParseAddress(person.Mail)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		if _, err := node.Submit(r.Context(), mails(person.Mail)...); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// timed puts the time that handlers take into the program's metrics.
func timed(metrics prometheus.Registerer) func(rota.Handler) rota.Handler {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "background_seconds", Help: "how long tasks took",
	}, []string{"queue", "outcome"})
	metrics.MustRegister(took)
	return func(next rota.Handler) rota.Handler {
		return func(ctx context.Context, t task.Handout) rota.Outcome {
			began := time.Now()
			o := next(ctx, t)
			took.WithLabelValues(t.Queue, o.Kind.String()).Observe(time.Since(began).Seconds())
			return o
		}
	}
}
