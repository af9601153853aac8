package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/frame"
)

// router is the mux as huma sees it: what huma registers gets what all calls get.
type router struct{ *API }

func (r router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	r.plain(pattern, func(w *answer, q *http.Request) error {
		if err := r.room(q.Context(), &w.call, pageWeight(q.URL)); err != nil {
			return err
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
	ofKey := strings.Contains(pattern, "/keys/{key}")
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		canonicalNames(r)
		if ofKey {
			keyOfQuery(r)
		}
		a.serve(&answer{
			ResponseWriter: w, within: a.conf.AnswerWithin, head: r.Method == http.MethodHead,
			call: call{from: addressOf(r), remote: r.RemoteAddr},
		}, r, rule{need, about}, count, handler)
	})
}

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
	w.epoch = *a.epoch.Load() // before the tokens: what changes them after that closes it
	err := checkQuery(r.URL)
	if err == nil {
		w.who, err = a.admit(r, who.need)
	}
	if err == nil && needsStore(r.URL.Path) {
		err = a.conf.Reach()
	}
	if err == nil && who.need != toDeliver { // who delivers does not learn which hooks there are
		err = checkNames(r)
	}
	if err == nil {
		err = a.unbegun(r, a.within(r, w.who, who.about))
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
// store is away. So is a stream, on which each call is asked about by its own path. Overviews tell
// what was known.
func needsStore(path string) bool {
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/overview") &&
		path != frame.Path &&
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
