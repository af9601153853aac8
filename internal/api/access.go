package api

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/pass"
)

// role says what the holder of a token may do.
type role string

const (
	roleAdmin role = "admin" // everything
	// everything but delete queues and groups and change notifiers and hooks
	roleOperator  role = "operator"
	roleSubmitter role = "submitter" // what a viewer may, submit, and cancel single tasks
	// hold, report, beat and log under its own name, and read queues
	roleWorker role = "worker"
	roleViewer role = "viewer" // read
)

// right is what a call needs.
type right uint8

const (
	toKnock   right = iota // no token at all
	toDeliver              // no token either: its body is signed, see package hook
	toRead                 // see everything
	toPrepare              // see what a worker must know
	toStream               // open a stream, on which each call needs its own right
	toSubmit               // submit, cancel one task, send signals
	toWork                 // act as a worker
	toOperate              // change what is there
	toDestroy              // delete what cannot be had back, say where messages go and who delivers
)

// rights says what each call needs. A call that is not named here cannot be registered.
var rights = map[string]right{
	"/": toKnock, "GET /{$}": toKnock, "GET /docs": toKnock, "GET /page/{file}": toKnock,
	"GET /console/{file}": toKnock,
	"GET /healthz":        toKnock,
	"GET /readyz":         toKnock, // the body's details need toRead, those of /healthz toPrepare
	"GET /metrics":        toRead, "GET /openapi.json": toRead,

	"GET /v1/access": toPrepare,
	"GET /v1/stream": toStream,

	"GET /v1/overview":        toRead,
	"GET /v1/overview/stream": toRead,

	"POST /v1/tasks":               toSubmit,
	"GET /v1/tasks":                toRead,
	"POST /v1/tasks/hold":          toWork,
	"POST /v1/tasks/report":        toWork,
	"POST /v1/tasks/cancel":        toOperate,
	"POST /v1/tasks/retry":         toOperate,
	"POST /v1/tasks/patch":         toOperate,
	"PATCH /v1/tasks/{id}":         toOperate,
	"GET /v1/tasks/{id}":           toRead,
	"GET /v1/tasks/{id}/explain":   toRead,
	"DELETE /v1/tasks/{id}":        toOperate,
	"POST /v1/tasks/{id}/cancel":   toSubmit,
	"POST /v1/tasks/{id}/retry":    toOperate,
	"POST /v1/tasks/{id}/run":      toOperate,
	"POST /v1/tasks/{id}/signal":   toSubmit,
	"POST /v1/tasks/{id}/children": toWork,
	"GET /v1/tasks/{id}/children":  toRead,
	"GET /v1/tasks/{id}/tree":      toRead,
	"GET /v1/tasks/{id}/contexts":  toRead,
	"POST /v1/signals/{name}":      toSubmit,
	"POST /v1/tasks/{id}/logs":     toWork,
	"GET /v1/tasks/{id}/logs":      toRead,

	"GET /v1/stats":    toRead,
	"GET /v1/forecast": toRead,

	"GET /v1/queues":                 toPrepare,
	"GET /v1/queues/{queue}":         toPrepare,
	"GET /v1/queues/{queue}/explain": toPrepare,
	"PUT /v1/queues/{queue}":         toOperate,
	"DELETE /v1/queues/{queue}":      toDestroy,
	"POST /v1/queues/{queue}/pause":  toOperate,
	"POST /v1/queues/{queue}/resume": toOperate,

	"GET /v1/queues/{queue}/keys":               toRead,
	"PUT /v1/queues/{queue}/keys/{key}":         toOperate,
	"POST /v1/queues/{queue}/keys/{key}/pause":  toOperate,
	"POST /v1/queues/{queue}/keys/{key}/resume": toOperate,

	"GET /v1/workers":                   toRead,
	"GET /v1/workers/{worker}":          toRead,
	"DELETE /v1/workers/{worker}":       toOperate,
	"POST /v1/workers/{worker}/beat":    toWork,
	"POST /v1/workers/{worker}/drain":   toOperate,
	"POST /v1/workers/{worker}/undrain": toOperate,

	"GET /v1/groups":                            toRead,
	"GET /v1/groups/{group}":                    toRead,
	"PUT /v1/groups/{group}":                    toOperate,
	"DELETE /v1/groups/{group}":                 toDestroy,
	"POST /v1/groups/{group}/pause":             toOperate,
	"POST /v1/groups/{group}/resume":            toOperate,
	"POST /v1/groups/{group}/refresh":           toOperate,
	"POST /v1/groups/{group}/rebalance":         toOperate,
	"POST /v1/groups/{group}/plan":              toRead,
	"GET /v1/groups/{group}/assignments":        toRead,
	"GET /v1/groups/{group}/jobs":               toRead,
	"PUT /v1/groups/{group}/jobs":               toOperate,
	"POST /v1/groups/{group}/jobs":              toOperate,
	"DELETE /v1/groups/{group}/jobs/{job}":      toOperate,
	"GET /v1/groups/{group}/jobs/{job}/explain": toRead,
	"POST /v1/groups/{group}/jobs/{job}/logs":   toWork,
	"GET /v1/groups/{group}/jobs/{job}/logs":    toRead,

	"GET /v1/schedules":                  toRead,
	"PUT /v1/schedules":                  toOperate,
	"GET /v1/schedules/{name}":           toRead,
	"PUT /v1/schedules/{name}":           toOperate,
	"DELETE /v1/schedules/{name}":        toOperate,
	"POST /v1/schedules/{name}/pause":    toOperate,
	"POST /v1/schedules/{name}/resume":   toOperate,
	"POST /v1/schedules/{name}/run":      toOperate,
	"POST /v1/schedules/{name}/backfill": toOperate,
	"GET /v1/schedules/{name}/fires":     toRead,
	"GET /v1/schedules/{name}/runs/{at}": toRead,
	"GET /v1/schedules/{name}/audit":     toRead,
	"POST /v1/schedules/preview":         toRead,
	"GET /v1/calendars":                  toRead,
	"GET /v1/calendars/{calendar}":       toRead,
	"PUT /v1/calendars/{calendar}":       toOperate,
	"DELETE /v1/calendars/{calendar}":    toOperate,

	"GET /v1/nodes":                 toPrepare,
	"POST /v1/nodes/{node}/drain":   toOperate,
	"POST /v1/nodes/{node}/undrain": toOperate,
	"GET /v1/claims":                toRead,
	"POST /v1/claims/rescan":        toOperate,
	"POST /v1/claims/release":       toOperate,
	"GET /v1/claims/{key}":          toRead,
	"GET /v1/claims/{key}/explain":  toRead,
	"POST /v1/claims/assign":        toOperate,
	"POST /v1/nodes/{node}/release": toOperate,
	"PUT /v1/cluster":               toOperate,
	"GET /v1/cluster":               toRead,

	"GET /v1/events":                 toRead,
	"GET /v1/events/stream":          toRead,
	"GET /v1/notifiers":              toRead,
	"GET /v1/notifiers/{name}":       toRead,
	"PUT /v1/notifiers/{name}":       toDestroy,
	"DELETE /v1/notifiers/{name}":    toDestroy,
	"POST /v1/notifiers/{name}/test": toDestroy,

	"GET /v1/hooks":           toRead,
	"GET /v1/hooks/{name}":    toRead,
	"PUT /v1/hooks/{name}":    toDestroy,
	"DELETE /v1/hooks/{name}": toDestroy,
	"POST /v1/hooks/{name}":   toDeliver,
}

// may tells whether the role has the right.
func (r role) may(need right) bool {
	switch r {
	case roleAdmin:
		return true
	case roleOperator:
		return need != toDestroy
	case roleSubmitter:
		return need <= toSubmit
	case roleViewer:
		return need <= toPrepare
	case roleWorker:
		return need == toKnock || need == toPrepare || need == toStream || need == toWork
	}
	return need == toKnock
}

// principal is who calls.
type principal struct {
	Name  string // of a worker's token "*": any worker
	Role  role
	scope *scope // nil = everything
	// peer says that it is another node, by its pass: that tells of the caller for whom it asks.
	peer bool
}

// as tells whether the principal may speak for the named worker.
func (p principal) as(worker string) error {
	if p.only() && p.Name != names.Canonical(worker) {
		return refuse(http.StatusForbidden, "this token speaks for worker %q only", p.Name)
	}
	return nil
}

// only tells whether the principal is one worker's.
func (p principal) only() bool { return p.Role == roleWorker && p.Name != "*" }

// anonymous calls when there are no tokens.
var anonymous = principal{Name: "anonymous", Role: roleAdmin}

// Tokens are the access tokens of a node. The zero value has none: everybody who reaches the node
// may do everything.
type Tokens struct {
	// Keyed by hash, so that the time a lookup takes says nothing about a token, and no token stays
	// in memory.
	by map[[sha256.Size]byte]principal
	// workers are the scopes of workers' tokens by the name that they are for.
	workers map[string][]*scope
	// own are the workers that have a token of their own, with a scope or without.
	own map[string]bool
	// short are the lines of tokens that are too short to be kept from guessing.
	short []int
}

// ParseTokens reads lines "NAME ROLE TOKEN", and behind that perhaps a scope: see scopeForm. Empty
// lines and those that begin with # are skipped. Errors name all lines that are wrong and never
// show what stands there: columns get mixed up. A file without any token is an error, since it
// would open what it was meant to close.
func ParseTokens(r io.Reader) (Tokens, error) {
	t := Tokens{by: map[[sha256.Size]byte]principal{}, workers: map[string][]*scope{},
		own: map[string]bool{}}
	var wrong []error
	lines := bufio.NewScanner(r)
	n := 0
	for lines.Scan() {
		n++
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := t.add(words); err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", n, err))
		} else if len(words[2]) < MinToken {
			t.short = append(t.short, n)
		}
	}
	if err := lines.Err(); err != nil {
		wrong = append(wrong, fmt.Errorf("line %d: %w", n+1, err))
	}
	if len(t.by) == 0 && len(wrong) == 0 {
		wrong = append(wrong, errors.New("no token in it"))
	}
	if len(wrong) > 0 {
		return Tokens{}, errors.Join(wrong...)
	}
	return t, nil
}

func (t *Tokens) add(words []string) error {
	if len(words) < 3 {
		return errors.New("want NAME ROLE TOKEN")
	}
	p := principal{Name: names.Canonical(words[0]), Role: role(words[1])}
	switch p.Role {
	case roleAdmin, roleOperator, roleSubmitter, roleWorker, roleViewer:
	default:
		return errors.New("the second word must be admin, operator, submitter, worker or viewer")
	}
	if !limits.ValidName(p.Name) && (p.Name != "*" || p.Role != roleWorker) {
		return fmt.Errorf("the first word %s, or, for a worker, be *", limits.NameRule)
	}
	var err error
	if p.scope, err = parseScope(words[3:]); err != nil {
		return err
	}
	if p.Role == roleAdmin && p.scope != nil {
		return errors.New("an admin reaches everything, and can have no scope: give another role")
	}
	for _, c := range []byte(words[2]) {
		if c <= ' ' || c > '~' {
			return errors.New("the token must be printable ASCII")
		}
	}
	hash := sha256.Sum256([]byte(words[2]))
	if _, twice := t.by[hash]; twice {
		return errors.New("this token stands on an earlier line already")
	}
	t.by[hash] = p
	if p.only() {
		t.own[p.Name] = true
	}
	if p.only() && p.scope != nil {
		t.workers[p.Name] = append(t.workers[p.Name], p.scope)
	}
	return nil
}

// owned tells whether a worker has a token of its own.
func (t *Tokens) owned(worker string) bool { return t.own[names.Canonical(worker)] }

// admit says who calls, or why it may not.
func (a *API) admit(r *http.Request, need right) (principal, error) {
	if need == toDeliver { // whatever token, host or page it comes with
		return principal{}, nil
	}
	if r.Context().Value(inside{}) != nil {
		return principal{Name: a.conf.Node, Role: roleAdmin}, nil
	}
	tokens := a.tokens.Load()
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	asPeer := scheme == pass.Scheme && a.conf.Peer != nil
	if len(tokens.by) == 0 {
		who := anonymous
		err := a.neighbour(r)
		if err == nil && asPeer {
			_, who.peer = a.conf.Peer(r)
		}
		return who, err
	}
	who, known := tokens.by[sha256.Sum256([]byte(token))]
	known = known && strings.EqualFold(scheme, "Bearer")
	if asPeer {
		who.Role, who.scope = roleAdmin, nil
		who.Name, known = a.conf.Peer(r)
		who.peer = known
	}
	switch {
	case need == toKnock && !known: // a wrong token is as good as none, and nobody counts it
		return principal{}, nil
	case need == toKnock:
		return who, nil
	case !known && r.Header.Get("Authorization") != "" && !a.guesses.mayErr(r.RemoteAddr):
		return who, refuse(http.StatusTooManyRequests,
			"too many access tokens from this address were wrong; one that is known here is let in all the same")
	case !known:
		return who, refuse(http.StatusUnauthorized,
			"this call needs the header Authorization: Bearer TOKEN, with a token that is known here")
	}
	return who, who.may(need)
}

// may refuses what the principal's role may not do.
func (p principal) may(need right) error {
	if p.Role.may(need) {
		return nil
	}
	return refuse(http.StatusForbidden, "%s %q may not make this call", p.Role, p.Name)
}

// neighbour refuses what a web page elsewhere makes a browser on this machine send: without tokens,
// being able to connect is all that protects a node. A page whose name was made to point here (DNS
// rebinding) is told by its Host header, one that simply posts (CSRF) by its Origin.
func (a *API) neighbour(r *http.Request) error {
	if !a.conf.AnyHost && !loopbackHost(r.Host) {
		return refuse(http.StatusForbidden,
			"without access tokens this node answers only to localhost, not to %.80q", r.Host)
	}
	err := a.browsers.Check(r)
	if err == nil {
		err = sameSite(r)
	}
	if origin := r.Header.Get("Origin"); err == nil && origin != "" {
		if u, bad := url.Parse(origin); bad != nil || u.Host != r.Host {
			err = errors.New("origin differs from host")
		}
	}
	if err != nil {
		return refuse(http.StatusForbidden,
			"without access tokens this node takes no calls from pages of other sites: %v", err)
	}
	return nil
}

// sameSite refuses a call that a page of another site, or of another port, makes a browser send,
// also one that only reads: it could learn from the answer, as far as scripts and images tell, and
// keep the node busy. Browsers name the site of such calls also where they name no origin; what
// follows a link to a page is let in. Older ones name at most the page.
func sameSite(r *http.Request) error {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "same-origin", "none":
		return nil
	case "":
		if u, err := url.Parse(r.Header.Get("Referer")); err != nil || u.Host != "" &&
			u.Host != r.Host {
			return errors.New("the page that made the call has another host")
		}
		return nil
	default:
		mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
		follows := (mode == "" || mode == "navigate") && (dest == "" || dest == "document")
		if need, known := rights[r.Pattern]; follows && known && need == toKnock &&
			r.Method == http.MethodGet {
			return nil
		}
		return fmt.Errorf("the call is %.20s", site)
	}
}

// loopbackHost tells whether a Host header names this machine as seen from itself.
func loopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
