package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/logshare"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
)

// Config of the API.
type Config struct {
	// Engine is what the calls are about. Required.
	Engine Engine
	// Cluster is the nodes, their workers, and what they share out. Required.
	Cluster Cluster
	// Events is what happened. Required.
	Events Events
	// History is what was done when. Default: nothing was.
	History History
	// Forecasts says how many workers queues and groups need. Default: there are none.
	Forecasts Forecasts
	// Notifiers looks after who is told of it. Required.
	Notifiers Notifiers
	// Hooks looks after what other programs call. Required.
	Hooks Hooks
	// Groups, Jobs and Placements are groups of jobs. Default: there are none.
	Groups     Groups
	Jobs       Jobs
	Placements Placements
	// Drains weighs drains of workers. Default: they cost nothing, and are not refused.
	Drains Drains
	// Schedules, Fires and Almanac are what is due when, and what came of it. Default: there are no
	// schedules.
	Schedules Schedules
	Fires     Fires
	Almanac   Almanac
	// Tokens say who may call, until SetTokens gives others. Without any everybody may, if the
	// request comes from this machine.
	Tokens Tokens
	// Peer names the node that made a call, by its header Authorization with pass.Scheme; false
	// when the header is none that a node of this store made for this call. Nodes may do
	// everything. Asked only when there are tokens. Default: no node is known.
	Peer func(*http.Request) (node string, ok bool)
	// Secret is the store's, by which tokens of hand-outs are told from made-up ones, and one
	// worker's from another's.
	Secret seal.Secret
	// AnyHost lets calls without tokens name any host, for a node that is meant to be open. Pages
	// of other sites are refused all the same.
	AnyHost bool
	// Node is this node's name, and StoreMark what all nodes of its store are known by, as /healthz
	// tells them. Default "".
	Node, StoreMark string
	// Version is what the OpenAPI document and the metrics say of the program. Default "dev".
	Version string
	// Ready says whether this node can do its work. Default: it can.
	Ready func(context.Context) Readiness
	// StoreClock says how far this node's clock is ahead of the store's, and how often that has
	// stepped since the node began. It must not wait. Default: never, and not at all.
	StoreClock func() (offset time.Duration, steps int)
	// Reach says why no call can be served just now because this node does not reach its store, as
	// store.ErrOutOfReach; nil = they can. It must not wait. Calls that need no store are served
	// all the same. Default: they always can.
	Reach func() error
	// Retention says how far this node is behind with deleting what is kept no longer. It must not
	// wait. Default: it never is.
	Retention func() store.Retention
	// Logs is what all lines of logs at this node pass through. Default: a gate of its own, with
	// the usual shares.
	Logs *logshare.Gate
	// Metrics is where the API registers its metrics, and what /metrics shows. Default: a registry
	// of its own.
	Metrics *prometheus.Registry
	// Collectors are registered there, too. Default: none.
	Collectors []prometheus.Collector
	// Log is where faults of the server go. Default: nowhere. It never sees a token.
	Log *slog.Logger
	// Tell is told of each change that a caller made. It must not wait. Default: nobody is.
	Tell func(store.Event)

	// MaxBody is the largest request body in bytes. Default 32 MiB.
	MaxBody int64
	// MaxBodies is the memory in bytes that all request bodies under way may take; a quarter of it
	// is for workers' calls alone. Default 256 MiB.
	MaxBodies int64
	// MaxAnswers is the memory in bytes that all large answers under way may take; a quarter of it
	// is for workers' calls alone. Default 128 MiB.
	MaxAnswers int64
	// HeaderWithin is how long a request's header may take. Default 5 s.
	HeaderWithin time.Duration
	// BodyWithin is how long a request's body may take. Default 30 s.
	BodyWithin time.Duration
	// AnswerWithin is how long the caller may take to read the next 256 KiB of an answer. Default
	// 10 s.
	AnswerWithin time.Duration
	// Idle is how long a connection is kept without a request. Default 60 s.
	Idle time.Duration
	// Poll is how often a followed log, of a task or of events, is looked at. Default 500 ms.
	Poll time.Duration
}

// maxHeader is the largest request header in bytes.
const maxHeader = 16 << 10

// withDefaults fills in what was left out and says everything that is wrong at once.
func (c Config) withDefaults() (Config, error) {
	var wrong []error
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"engine", c.Engine == nil}, {"cluster", c.Cluster == nil}, {"events", c.Events == nil},
		{"notifiers", c.Notifiers == nil}, {"hooks", c.Hooks == nil},
	} {
		if part.missing {
			wrong = append(wrong, fmt.Errorf("no %s", part.name))
		}
	}
	c.standIns()
	for _, n := range []struct {
		name     string
		value    *int64
		standard int64
	}{
		{"max body", &c.MaxBody, 32 << 20}, {"max bodies", &c.MaxBodies, 256 << 20},
		{"max answers", &c.MaxAnswers, 128 << 20},
	} {
		if setDefault(n.value, n.standard); *n.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s %d is below 0", n.name, *n.value))
		}
	}
	if c.MaxBodies < 2*c.MaxBody {
		wrong = append(wrong,
			fmt.Errorf("max bodies %d must be at least twice max body %d", c.MaxBodies, c.MaxBody))
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"header within", &c.HeaderWithin, 5 * time.Second},
		{"body within", &c.BodyWithin, 30 * time.Second},
		{"answer within", &c.AnswerWithin, 10 * time.Second}, {"idle", &c.Idle, time.Minute},
		{"poll", &c.Poll, 500 * time.Millisecond},
	} {
		if setDefault(d.value, d.standard); *d.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s %v is below 0", d.name, *d.value))
		}
	}
	return c, errors.Join(wrong...)
}

// standIns puts something in the place of what was left out and may be.
func (c *Config) standIns() {
	setDefault[Groups](&c.Groups, groupless{})
	setDefault[Jobs](&c.Jobs, groupless{})
	setDefault[Placements](&c.Placements, groupless{})
	setDefault[Drains](&c.Drains, priceless{c.Cluster})
	setDefault[Schedules](&c.Schedules, scheduleless{})
	setDefault[Fires](&c.Fires, scheduleless{})
	setDefault[Almanac](&c.Almanac, scheduleless{})
	setDefault[History](&c.History, noHistory{})
	setDefault[Forecasts](&c.Forecasts, noForecasts{})
	setDefault(&c.Version, "dev")
	if c.Ready == nil {
		c.Ready = func(context.Context) Readiness { return Readiness{Ready: true} }
	}
	if c.Retention == nil {
		c.Retention = func() store.Retention { return store.Retention{} }
	}
	if c.StoreClock == nil {
		c.StoreClock = func() (time.Duration, int) { return 0, 0 }
	}
	if c.Reach == nil {
		c.Reach = func() error { return nil }
	}
	if c.Logs == nil {
		c.Logs = logshare.New(logshare.Config{})
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Tell == nil {
		c.Tell = func(store.Event) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// setDefault fills in a field that was left out.
func setDefault[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}
