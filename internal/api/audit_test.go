package api

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/bucket"
	"github.com/rotahq/rota/internal/store"
)

// heard is what was told of changes.
type heard struct {
	mu     sync.Mutex
	events []store.Event
}

func (h *heard) tell(e store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *heard) take() (events []store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, h.events = h.events, nil
	return events
}

// Of every call in the story of all calls: those that change something are one event each, the
// others none.
func TestEachChangeOfACallerIsOneEvent(t *testing.T) {
	on, h := &stage{newFake()}, &heard{}
	a := newAPI(t, on, func(c *Config) { c.Tell = h.tell })
	a.auditor.node = bucket.Bucket{Rate: 1e9, Burst: 1e9, Left: 1e9}
	told := map[string]bool{}
	for _, s := range readExchanges(t, "testdata/calls.txt") {
		on.Engine = newFake()
		a.auditor.by = map[auditKey]*auditRow{}
		response, text := ask(t, a, s.request, s.body)
		events := h.take()
		var how audited
		if method, target, _ := strings.Cut(s.request, " "); method != "GET" {
			path, _, _ := strings.Cut(target, "?")
			how = changes[patternOf(t, a, method, path)]
		}
		want := 1
		if how.kind == "" || response.StatusCode/100 != 2 ||
			strings.Contains(s.body, `"dry_run":true`) {
			want = 0
		}
		if len(events) != want {
			t.Errorf("%s %s: %d %.100s told %+v", s.request, s.body, response.StatusCode, text,
				events)
		}
		for _, e := range events {
			told[e.Kind] = true
			f := e.Fields
			if e.Kind != "audit."+how.kind || f["by"] != "anonymous" || f["role"] != "admin" ||
				f["from"] != "192.0.2.1" || (e.Subject == "") != (how.subject == "") {
				t.Errorf("%s: %+v", s.request, e)
			}
		}
	}
	for call, how := range changes {
		if how.kind != "" && !told["audit."+how.kind] {
			t.Errorf("no story calls %s so that it changes something", call)
		}
	}
}

// patternOf is the pattern that serves a call.
func patternOf(t *testing.T, a *API, method, path string) string {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	_, pattern := a.mux.Handler(r)
	return pattern
}

func TestChangesSayWhoAndHowMuchAndNoSecret(t *testing.T) {
	h := &heard{}
	f := newFake()
	var log bytes.Buffer
	a := newAPI(t, f, func(c *Config) {
		c.Tell, c.Log = h.tell, slog.New(slog.NewTextHandler(&log, nil))
		tokens, err := ParseTokens(strings.NewReader("ann operator a-token\nroot admin r-token\n"))
		if c.Tokens = tokens; err != nil {
			t.Fatal(err)
		}
	})
	for _, c := range []struct{ token, call, body, want string }{
		{"a-token", "POST /v1/queues/mail/pause", "",
			`ann (operator, from 192.0.2.1) paused queue mail map[by:ann call:POST /v1/queues/{queue}/pause from:192.0.2.1 role:operator]`},
		{"r-token", "DELETE /v1/queues/mail?force=true", "",
			`root (admin, from 192.0.2.1) deleted queue mail map[by:root call:DELETE /v1/queues/{queue} force:true from:192.0.2.1 role:admin]`},
		{"a-token", "POST /v1/tasks/cancel", `{"filter":{"all":true}}`,
			`: 6 map[by:ann call:POST /v1/tasks/cancel changed:6 from:192.0.2.1 matched:7 role:operator]`},
		{"a-token", "POST /v1/tasks/cancel", `{"filter":{"all":true},"dry_run":true}`, ""},
		{"a-token", "POST /v1/tasks/retry", `{"filter":{"state":"done"},"stage":"send"}`,
			`: 6 map[by:ann call:POST /v1/tasks/retry changed:6 from:192.0.2.1 matched:7 role:operator stage:send state:done]`},
		{"a-token", "POST /v1/tasks/patch", `{"filter":{"all":true},"set":{"context":"SECRET","delay":"1h"}}`,
			`: 6 map[by:ann call:POST /v1/tasks/patch changed:6 changed_fields:due,context delay:1h0m0s from:192.0.2.1 matched:7 role:operator]`},
		{"a-token", "PATCH /v1/tasks/" + idOf(1).String(), `{"context":"SECRET","group_key":"SECRET","max_attempts":3,"meta":{"SECRET":"SECRET"}}`,
			`edited task ` + idOf(1).String() + ` map[by:ann call:PATCH /v1/tasks/{id} changed_fields:context,group_key,max_attempts,meta from:192.0.2.1 max_attempts:3 role:operator]`},
		{"a-token", "POST /v1/tasks/" + idOf(1).String() + "/signal",
			`{"name":"paid","payload":"SECRET","key":"SECRET"}`,
			`sent a signal to task ` + idOf(1).String() + ` map[by:ann call:POST /v1/tasks/{id}/signal delivered:true from:192.0.2.1 role:operator signal:paid]`},
		{"a-token", "POST /v1/signals/paid", `{"key":"SECRET","payload":"SECRET"}`,
			`sent signal paid map[by:ann call:POST /v1/signals/{name} delivered:true from:192.0.2.1 role:operator]`},
		{"a-token", "POST /v1/queues/mail/keys/a%2Fb/pause", `{"for":"30s"}`,
			`paused a group key of queue mail map[by:ann call:POST /v1/queues/{queue}/keys/{key}/pause for:30s from:192.0.2.1 key:a/b role:operator]`},
		{"a-token", "POST /v1/queues/mail/keys/-/pause?key=..", "",
			`paused a group key of queue mail map[by:ann call:POST /v1/queues/{queue}/keys/{key}/pause from:192.0.2.1 key:.. role:operator]`},
		{"a-token", "PUT /v1/queues/mail/keys/acme", `{"weight":5}`,
			`weighed a group key of queue mail map[by:ann call:PUT /v1/queues/{queue}/keys/{key} from:192.0.2.1 key:acme role:operator weight:5]`},
		{"a-token", "DELETE /v1/queues/mail", "", ""}, // forbidden
		{"a-token", "POST /v1/queues/none/pause", "", ""},
		{"r-token", "PUT /v1/notifiers/ops",
			`{"kind":"webhook","on":["*"],"url":"https://hooks.example.com/SECRET","secret":"SECRET"}`,
			`root (admin, from 192.0.2.1) configured notifier ops`},
		{"r-token", "PUT /v1/hooks/builds",
			`{"scheme":"github","queue":"mail","secrets":["SECRET","SECRET2"]}`,
			`root (admin, from 192.0.2.1) configured hook builds map[by:root call:PUT /v1/hooks/{name} from:192.0.2.1 role:admin]`},
		{"r-token", "DELETE /v1/hooks/builds", "",
			`root (admin, from 192.0.2.1) deleted hook builds`},
	} {
		response, text := ask(t, a, c.call, c.body, "Authorization: Bearer "+c.token)
		got := ""
		for _, e := range h.take() {
			got += fmt.Sprintf("%s %v", e.Text, e.Fields)
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) ||
			strings.Contains(got, "SECRET") {
			t.Errorf("%s: %d %.200s\n got %s\nwant %s", c.call, response.StatusCode, text, got,
				c.want)
		}
	}
	f.err = errors.New("who knows")
	ask(t, a, "POST /v1/queues/mail/pause", "", "Authorization: Bearer a-token")
	if events := h.take(); len(events) != 1 || events[0].Fields["outcome"] != "unknown" {
		t.Errorf("a change that may have been made: %+v", events)
	}
	f.err = store.ErrBusy
	ask(t, a, "POST /v1/tasks/cancel", `{"filter":{"state":"dead"}}`,
		"Authorization: Bearer a-token")
	if strings.Contains(log.String(), "SECRET") ||
		!strings.Contains(log.String(), "changed by a caller") ||
		!strings.Contains(log.String(), "audit.queue.pause") {
		t.Errorf("logged %s", log.String())
	}
}

func TestManyChangesAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		a := newAuditor(h.tell)
		ann := principal{Name: "ann", Role: roleOperator}
		bob := principal{Name: "bob", Role: roleOperator}
		cancel := changes["POST /v1/tasks/{id}/cancel"]
		const n = 60_000
		for i := range n {
			a.add(change{audited: cancel, who: ann, from: "10.0.0.1",
				subject: "t" + strconv.Itoa(i), fields: map[string]string{"changed": "2"}},
				time.Now())
			if i == 30_000 {
				a.add(change{audited: changes["POST /v1/queues/{queue}/pause"], who: bob,
					from: "10.0.0.2", subject: "mail"}, time.Now())
			}
			time.Sleep(time.Millisecond)
		}
		a.flush(time.Now())
		calls, changed, others := 0, 0, 0
		for _, e := range h.take() {
			k, err := strconv.Atoi(e.Fields["calls"])
			if err != nil {
				k = 1
			}
			if e.Fields["by"] != "ann" {
				others++
				continue
			}
			calls += k
			m, _ := strconv.Atoi(e.Fields["changed"])
			changed += m
			if e.Kind != "audit.task.cancel" || k > 1 &&
				(e.Fields["first"] == "" || e.Fields["last"] == "" ||
					!strings.Contains(e.Text, "times within 10s")) {
				t.Errorf("%+v", e)
			}
			h.events = append(h.events, e)
		}
		if len(h.events) > 70 || calls != n || changed != 2*n || others != 1 {
			t.Errorf("%d changes of ann's are %d events that say %d and %d, of bob's %d", n,
				len(h.events), calls, changed, others)
		}
	})
}

func TestChangesOfManyCallersAreSummedUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		a := newAuditor(h.tell)
		const n = 20_000
		for i := range n {
			a.add(change{audited: changes["POST /v1/queues/{queue}/pause"], who: anonymous,
				from: fmt.Sprintf("2001:db8::%x", i), subject: "mail"}, time.Now())
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		calls, events := 0, h.take()
		for _, e := range events {
			k, err := strconv.Atoi(e.Fields["calls"])
			if err != nil {
				k = 1
			}
			calls += k
		}
		a.mu.Lock()
		known := len(a.by)
		a.mu.Unlock()
		if calls != n || len(events) > auditNodeBurst+20*auditNodeRate+3*(maxAuditRows+1) ||
			known > maxAuditRows+1 {
			t.Errorf("%d changes are %d events that say %d; %d callers are known", n, len(events),
				calls, known)
		}
	})
}

func TestRefusalsAreCountedAndLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := newAPI(t, newFake(), func(c *Config) {
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			tokens, err := ParseTokens(strings.NewReader("ann viewer a-token\n"))
			if c.Tokens = tokens; err != nil {
				t.Fatal(err)
			}
		})
		for range 1000 {
			ask(t, a, "GET /v1/queues", "", "Authorization: Bearer SECRET")
			time.Sleep(20 * time.Millisecond)
		}
		ask(t, a, "POST /v1/queues/mail/pause", "", "Authorization: Bearer a-token")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 5 || strings.Contains(log.String(), "SECRET") ||
			!strings.Contains(lines[2], "calls=29") ||
			!strings.Contains(lines[2], "reason=unauthorized") ||
			!strings.Contains(lines[3], "calls=490") ||
			!strings.Contains(lines[3], "reason=throttled") {
			t.Errorf("logged %q", lines)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "reason=forbidden") ||
			!strings.Contains(last, "by=ann") || !strings.Contains(last, "pause") {
			t.Errorf("logged %q", last)
		}
		_, text := ask(t, a, "GET /metrics", "", "Authorization: Bearer a-token")
		for _, want := range []string{
			`rota_http_refused_total{reason="unauthorized"} 39`,
			`rota_http_refused_total{reason="throttled"} 961`,
			`rota_http_refused_total{reason="forbidden"} 1`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
		for i := range 3 * maxRefusers {
			a.refusalLog.note(401, strconv.Itoa(i), time.Now())
		}
		if len(a.refusalLog.by) > maxRefusers {
			t.Errorf("%d are known", len(a.refusalLog.by))
		}
	})
}

// What a node asks another one is told by the one that a caller asked. A header that only looks as
// if it was a node's hides nothing, also where everybody may do everything.
func TestOnlyWhatANodeAsksIsNotTold(t *testing.T) {
	peer := func(r *http.Request) (string, bool) {
		return "n2", r.Header.Get("Authorization") == "Rota-Node good"
	}
	for _, tokens := range []Tokens{{}, testTokens(t)} {
		h := &heard{}
		a := newAPI(t, newFake(), func(c *Config) {
			c.Tell, c.Peer, c.Tokens = h.tell, peer, tokens
		})
		for pass, want := range map[string]int{"good": 0, "bad": 1} {
			response, _ := ask(t, a, "POST /v1/queues/mail/pause", "",
				"Authorization: Rota-Node "+pass)
			if response.StatusCode == http.StatusUnauthorized {
				want = 0 // nothing was done
			}
			if events := h.take(); len(events) != want {
				t.Errorf("with %d tokens and a %s pass: %d, told %+v", len(tokens.by), pass,
					response.StatusCode, events)
			}
		}
	}
}

// Where it is not found out whether a call is in the scope of its token, nothing was done, and
// nothing is told. Of a name that nothing can have no store is asked.
func TestCallWhoseScopeIsNotFoundOutIsNotTold(t *testing.T) {
	f, h := newFake(), &heard{}
	a := newAPI(t, f, func(c *Config) { c.Tell, c.Tokens = h.tell, scoped(t) })
	f.err = errors.New("strange")
	for call, want := range map[string]int{
		"DELETE /v1/schedules/mail": 503, "POST /v1/schedules/mail/run": 503,
		"POST /v1/tasks/" + idOf(1).String() + "/cancel":   503,
		"DELETE /v1/tasks/" + idOf(1).String():             503,
		"DELETE /v1/schedules/%ff":                         404,
		"DELETE /v1/schedules/" + strings.Repeat("x", 5e3): 404,
	} {
		response, text := ask(t, a, call, "", "Authorization: Bearer operator-in")
		if response.StatusCode != want || want == 503 && !strings.Contains(text, `"unchanged"`) {
			t.Errorf("%.60s: %d %.300s", call, response.StatusCode, text)
		}
		if events := h.take(); len(events) > 0 {
			t.Errorf("%.60s: told %.300v", call, events)
		}
	}
}

// A stage that no task can have, and a deadline with a thousand zeros, are refused: they would
// stand in the event, however long they are.
func TestStageThatNoTaskCanHaveIsNotTold(t *testing.T) {
	h := &heard{}
	a := newAPI(t, newFake(), func(c *Config) { c.Tell = h.tell })
	for _, stage := range []string{strings.Repeat("x", 257), `a\u0007b`} {
		for call, body := range map[string]string{
			"POST /v1/tasks/retry":                          `{"filter":{"queue":"mail"},"stage":"` + stage + `"}`,
			"POST /v1/tasks/" + idOf(2).String() + "/retry": `{"stage":"` + stage + `"}`,
		} {
			response, text := ask(t, a, call, body)
			if response.StatusCode != http.StatusUnprocessableEntity ||
				!strings.Contains(text, `"body.stage"`) {
				t.Errorf("%s: %d %.300s", call, response.StatusCode, text)
			}
		}
	}
	for _, deadline := range []string{
		strings.Repeat("0", 1000) + "10m",
		time.Now().UTC().Format("2006-01-02T15:04:05.") + strings.Repeat("0", 1000) + "Z",
	} {
		response, text := ask(t, a, "POST /v1/workers/w1/drain", `{"deadline":"`+deadline+`"}`)
		if response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("a long deadline: %d %.300s", response.StatusCode, text)
		}
	}
	if events := h.take(); len(events) > 0 {
		t.Errorf("told of %d changes", len(events))
	}
}
