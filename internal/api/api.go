package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/limits"
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
	if c.Engine == nil {
		wrong = append(wrong, errors.New("no engine"))
	}
	if c.Cluster == nil {
		wrong = append(wrong, errors.New("no cluster"))
	}
	if c.Events == nil {
		wrong = append(wrong, errors.New("no events"))
	}
	if c.Notifiers == nil {
		wrong = append(wrong, errors.New("no notifiers"))
	}
	if c.Hooks == nil {
		wrong = append(wrong, errors.New("no hooks"))
	}
	if c.Groups == nil {
		c.Groups = groupless{}
	}
	if c.Jobs == nil {
		c.Jobs = groupless{}
	}
	if c.Placements == nil {
		c.Placements = groupless{}
	}
	if c.Schedules == nil {
		c.Schedules = scheduleless{}
	}
	if c.Fires == nil {
		c.Fires = scheduleless{}
	}
	if c.Almanac == nil {
		c.Almanac = scheduleless{}
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) Readiness { return Readiness{Ready: true} }
	}
	if c.History == nil {
		c.History = noHistory{}
	}
	if c.Forecasts == nil {
		c.Forecasts = noForecasts{}
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
	for _, n := range []struct {
		name     string
		value    *int64
		standard int64
	}{
		{"max body", &c.MaxBody, 32 << 20}, {"max bodies", &c.MaxBodies, 256 << 20},
		{"max answers", &c.MaxAnswers, 128 << 20},
	} {
		if *n.value == 0 {
			*n.value = n.standard
		}
		if *n.value < 0 {
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
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s %v is below 0", d.name, *d.value))
		}
	}
	return c, errors.Join(wrong...)
}

// API serves an Engine over HTTP.
type API struct {
	conf       Config
	mux        *http.ServeMux
	huma       huma.API
	browsers   *http.CrossOriginProtection
	metrics    *metrics
	bodies     budget  // bytes of request bodies
	hookBodies inflow  // of those of calls of hooks
	large      budget  // bytes of large answers
	loads      budget  // tasks that are being read, before anybody knows how large they are
	follows    follows // streams of server-sent events
	streams    streams // of frames
	audits     budget  // of schedules: each may go over millions of due times
	gate       gate    // of submissions
	sealer     *seal.Sealer
	guesses    throttle   // of wrong access tokens
	seals      throttle   // of tokens of hand-outs that were never given out
	forged     throttle   // of signatures of calls of hooks
	makers     *queueGate // of queues, by submitting
	overviews  *overviews
	auditor    *auditor
	refusalLog *refusals
	tokens     atomic.Pointer[Tokens]        // conf.Tokens are those of the start
	epoch      atomic.Pointer[chan struct{}] // closed when tokens changes
	retoken    sync.Mutex                    // one change of tokens at a time
	buffers    sync.Pool                     // of *[]byte: answers of hot calls
	// one change of schedules at a time, since they are read, changed, written
	changing sync.Mutex
	document []byte // OpenAPI

	// of size 1, full while forecasts for another wait than the usual one are made
	forecasting chan struct{}

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
		conf: conf, mux: http.NewServeMux(), browsers: http.NewCrossOriginProtection(),
		closing: make(chan struct{}),
	}
	a.close = sync.OnceFunc(func() {
		close(a.closing)
		a.metrics.close()
		a.overviews.close()
	})
	a.bodies.limit, a.large.limit, a.loads.limit = conf.MaxBodies, conf.MaxAnswers, maxLoads
	a.hookBodies.limit = maxHookBodies
	a.follows.limit, a.follows.limitEach = maxFollows, maxFollowsEach
	a.streams.limit, a.streams.limitEach = maxStreams, maxStreamsEach
	a.audits.limit = maxAudits
	a.forecasting = make(chan struct{}, 1)
	a.gate.rate = firstRate
	a.makers = newQueueGate(conf.Engine.Queues)
	a.overviews = newOverviews(conf)
	a.auditor, a.refusalLog = newAuditor(a.told), newRefusals(conf.Log)
	a.tokens.Store(&conf.Tokens)
	a.epoch.Store(newEpoch())
	a.sealer = seal.NewSealer(conf.Secret)
	a.buffers.New = func() any { return new([]byte) }
	if a.metrics, err = newMetrics(conf, a); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	a.huma = humago.New(router{a}, humaConfig(conf.Version))
	a.registerOverview()
	a.registerTasks()
	a.registerHot()
	a.registerStream()
	a.registerLogs()
	a.registerQueues()
	a.registerExplanations()
	a.registerHistory()
	a.registerForecast()
	a.registerWorkers()
	a.registerGroups()
	a.registerJobs()
	a.registerPlacements()
	a.registerSchedules()
	a.registerCluster()
	a.registerEvents()
	a.registerNotifiers()
	a.registerHooks()
	a.registerNode()
	a.registerAccess()
	a.registerPages()
	a.plain("/", a.unmatched)
	if a.document, err = a.writeDocument(); err != nil {
		return nil, fmt.Errorf("write OpenAPI document: %w", err)
	}
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
	a.streams.under.Wait()
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

// Server is an HTTP server for Handler with every limit set; whoever calls it serves, and shuts it
// down.
func (a *API) Server() *http.Server {
	s := &http.Server{
		Handler:           a.Handler(),
		ReadHeaderTimeout: a.conf.HeaderWithin,
		IdleTimeout:       a.conf.Idle,
		MaxHeaderBytes:    maxHeader - 4096, // net/http reads 4 KiB more than it is told
		ErrorLog:          slog.NewLogLogger(a.conf.Log.Handler(), slog.LevelDebug),
	}
	fresh := &fresh{conns: map[net.Conn]struct{}{}}
	s.ConnState = fresh.note
	s.RegisterOnShutdown(a.close)
	s.RegisterOnShutdown(fresh.close)
	return s
}

// fresh are connections on which nothing was asked yet. A server that shuts down would wait five
// seconds for their first request, and clients often open one more than they use.
type fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (f *fresh) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == http.StateNew {
		f.conns[c] = struct{}{}
	} else {
		delete(f.conns, c)
	}
}

func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close() // nobody waits on it
	}
}

// router is the mux as huma sees it: what huma registers gets what all calls get.
type router struct{ *API }

func (r router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	r.plain(pattern, func(w *answer, q *http.Request) error {
		if n := pageWeight(q.URL); n > smallAnswer &&
			!r.keep(q.Context(), &w.call, n, r.large.limit/4, patience) {
			return busy("too many large answers are under way")
		}
		handler(w, q)
		return nil
	})
}

func (r router) ServeHTTP(w http.ResponseWriter, q *http.Request) { r.mux.ServeHTTP(w, q) }

// rule says who may make a call.
type rule struct {
	need  right
	about reach
}

// plain registers a call.
func (a *API) plain(pattern string, handler func(*answer, *http.Request) error) {
	need, known := rights[pattern]
	if !known {
		panic(fmt.Sprintf("nobody says who may call %q: see rights", pattern))
	}
	if _, known = changes[pattern]; !known && !strings.HasPrefix(pattern, "GET ") {
		panic(fmt.Sprintf("nobody says how it is told that %q was called: see changes", pattern))
	}
	count := a.metrics.call(pattern)
	about, known := reaches[pattern]
	if !known {
		panic(fmt.Sprintf("nobody says what a scope means for %q: see reaches", pattern))
	}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		canonicalNames(r)
		a.serve(&answer{
			ResponseWriter: w, within: a.conf.AnswerWithin,
			call: call{from: addressOf(r), remote: r.RemoteAddr},
		}, r, rule{need, about}, count, handler)
	})
}

// answer is the response to one call. It knows who called and what became of the call, and limits
// how long the caller may take to read.
type answer struct {
	http.ResponseWriter
	call
	within time.Duration
	status int  // 0 = nothing was answered yet
	broken bool // the caller is gone or too slow

	outcome string            // of a problem
	notes   map[string]string // what is told of the change, besides
	quiet   bool              // nothing is

	meta url.Values // of the query: see takeMeta
}

func (w *answer) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.limit()
	w.ResponseWriter.WriteHeader(status)
}

// limit begins the time that the caller has to read what is written next.
func (w *answer) limit() {
	// a writer without deadlines is a test's
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.within))
}

// answerStep is how much of an answer its caller must read in the time that it has. Whoever reads
// on has time for the next.
const answerStep = 256 << 10

func (w *answer) Write(b []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for {
		piece := b[n:min(n+answerStep, len(b))]
		k, err := w.ResponseWriter.Write(piece)
		if n += k; err != nil || n == len(b) {
			w.broken = w.broken || err != nil
			return n, err
		}
		w.limit()
	}
}

func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serve is what all calls have in common.
func (a *API) serve(
	w *answer, r *http.Request, who rule, count *callMetrics,
	handler func(*answer, *http.Request) error,
) {
	start := time.Now()
	count.begin()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer func() {
		count.done(w.status, time.Since(start))
		a.refused(&w.call, w.status, r.Pattern)
		a.auditCall(w, r, changes[r.Pattern])
	}()
	defer a.giveBack(&w.call)
	defer func() {
		if p := recover(); p != nil {
			a.recovered(w, r, p)
		}
	}()
	if r.ContentLength != 0 { // net/http lifts it at the body's end; a long poll may follow
		http.NewResponseController(w).SetReadDeadline(start.Add(a.conf.BodyWithin))
	}
	err := checkQuery(r.URL)
	if err == nil {
		w.who, err = a.admit(r, who.need)
	}
	if err == nil && needsStore(r.URL.Path) {
		err = a.conf.Reach()
	}
	if err == nil {
		err = a.within(r, w.who, who.about)
	}
	if err == nil {
		err = handler(w, r)
	}
	if err != nil {
		a.fail(w, r, err)
	}
}

// needsStore tells whether calls of a path are of no use without the store. Beats are: where its
// tasks are held a worker is answered from memory, and goes on with what it runs however long the
// store is away. Overviews tell what was known.
func needsStore(path string) bool {
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/overview") &&
		!(strings.HasPrefix(path, "/v1/workers/") && strings.HasSuffix(path, "/beat"))
}

// recovered ends a call that panicked: with 500, or, when its answer was begun, by cutting the
// connection.
func (a *API) recovered(w *answer, r *http.Request, p any) {
	refused := doubt(http.StatusInternalServerError, ownFault)
	if !w.broken && p != http.ErrAbortHandler { // huma panics when it can't write
		a.panicked(refused, r.Method+" "+r.URL.Path, p)
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	a.fail(w, r, refused)
}

// ownFault is what the caller of a call that panicked learns.
const ownFault = "this is a fault of the server"

// panicked logs a call that panicked, and gives the refusal its name there.
func (a *API) panicked(refused *problem, call string, p any) {
	a.logged(refused, "call panicked", "call", call, "panic", p, "stack", string(debug.Stack()))
}

// checkQuery refuses what would otherwise be skipped in silence: broken escapes, and one name
// twice.
func checkQuery(u *url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse(http.StatusBadRequest, "the query can't be read: %v", err)
	}
	for name, values := range query {
		switch {
		case !limits.ValidText(name, maxParameter):
			return wrong("query", "has a name that is not printable UTF-8")
		case len(values) > 1:
			return wrong("query."+name, "comes twice")
		case !limits.ValidText(values[0], maxParameter):
			return wrong("query."+name, "must be at most %d bytes of printable UTF-8", maxParameter)
		}
	}
	return nil
}

// maxParameter is the longest value of a query parameter in bytes.
const maxParameter = 1024

// knownQuery refuses parameters that a plain call does not know.
func knownQuery(r *http.Request, known ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query := r.URL.Query()
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, wrong("query."+name, "unknown query parameter")
		}
	}
	return query, nil
}

// operation registers a call without a body.
func operation[I, O any](a *API, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	a.refusals(&op)
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, a.refusal(op.Method+" "+op.Path, err)
		}
		return out, nil
	})
}
