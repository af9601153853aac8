package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/store"
)

// API serves an Engine over HTTP. It is the door: what each call is about stands behind it, in
// nouns.
type API struct {
	conf       Config
	queues     TaskQueues   // of which queues tasks are: scopes name queues
	schedules  ScheduleList // and of which schedules are
	mux        *http.ServeMux
	huma       huma.API
	browsers   *http.CrossOriginProtection
	metrics    *metrics
	bodies     budget   // bytes of request bodies
	large      budget   // bytes of large answers
	loads      budget   // tasks that are being read, before anybody knows how large they are
	follows    follows  // streams of server-sent events
	streams    streams  // of frames
	gate       gate     // of submissions
	guesses    throttle // of wrong access tokens
	auditor    *auditor
	refusalLog *refusals
	tokens     atomic.Pointer[Tokens]        // conf.Tokens are those of the start
	epoch      atomic.Pointer[chan struct{}] // closed when tokens changes
	retoken    sync.Mutex                    // one change of tokens at a time
	buffers    sync.Pool                     // of *[]byte: answers of hot calls
	nouns      []calls                       // all calls, in the order of the document
	document   func() ([]byte, error)        // OpenAPI; it is made when somebody asks for it first

	closing chan struct{} // closed when the server shuts down: streams end
	close   func()
}

// New builds the API. It serves nothing by itself: see Handler and Server.
func New(conf Config) (*API, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure API: %w", err)
	}
	a := &API{
		conf: conf, queues: conf.Engine, schedules: conf.Schedules, mux: http.NewServeMux(),
		browsers: http.NewCrossOriginProtection(), closing: make(chan struct{}),
	}
	overviews := newOverviews(overviewSources{
		queues: conf.Engine, minutes: conf.Engine, plans: conf.Schedules, cluster: conf.Cluster,
		groups: conf.Groups, workers: conf.Cluster, storeClock: conf.StoreClock,
		name: conf.Node, version: conf.Version,
	})
	a.close = sync.OnceFunc(func() {
		close(a.closing)
		a.metrics.close()
		overviews.close()
	})
	a.bodies.limit, a.large.limit, a.loads.limit = conf.MaxBodies, conf.MaxAnswers, maxLoads
	a.follows.limit, a.follows.limitEach = maxFollows, maxFollowsEach
	a.streams.limit, a.streams.limitEach = maxStreams, maxStreamsEach
	a.gate.rate = firstRate
	a.auditor, a.refusalLog = newAuditor(a.told), newRefusals(conf.Log)
	a.tokens.Store(&conf.Tokens)
	a.epoch.Store(newEpoch())
	a.buffers.New = func() any { return new([]byte) }
	if a.metrics, err = newMetrics(conf, a, overviews); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	a.huma = humago.New(router{a}, humaConfig(conf.Version))
	a.nouns = nouns(a, overviews)
	for _, calls := range a.nouns {
		calls.register()
	}
	a.plain("/", a.unmatched)
	a.document = a.finishDocument()
	return a, nil
}

// told logs what a caller did, and tells of it.
func (a *API) told(e store.Event) {
	a.conf.Log.Info("changed by a caller", "kind", e.Kind, "subject", e.Subject, "fields", e.Fields)
	a.conf.Tell(e)
}

// Close ends streams, as the shutdown of Server does, waits for their calls, and tells what was
// summed up of changes, when no call is under way any more.
func (a *API) Close() {
	a.close()
	a.streams.close()
	a.auditor.flush(time.Now())
}

// Handler serves all calls.
func (a *API) Handler() http.Handler { return a.mux }

// Inside is Handler for calls that this process makes itself: they need no access token, and may do
// everything, in the name of the node.
func (a *API) Inside() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), inside{}, true)))
	})
}

// Collector gives what /metrics shows to another registry, without what is the whole process's,
// which that has by itself.
func (a *API) Collector() prometheus.Collector { return a.metrics.own }

// inside marks the context of a call that this process makes itself.
type inside struct{}
