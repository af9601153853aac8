package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/pass"
	"github.com/rotahq/rota/task"
)

func TestTokenFileErrorsNameTheLineAndNoToken(t *testing.T) {
	const secret = "s3cret-value"
	for _, c := range []struct{ file, want string }{
		{"", "no token in it"},
		{"# only a comment\n\n  \n", "no token in it"},
		{"root admin", "line 1: want NAME ROLE TOKEN"},
		{"# x\nroot admin " + secret + " more", "line 2: want NAME ROLE TOKEN"},
		{"root " + secret + " admin", "line 1: the second word"},
		{secret + "! admin root", "line 1: the first word"},
		{"* admin " + secret, "line 1: the first word"},
		{"a viewer " + secret + "\nb viewer other\nc admin " + secret,
			"line 3: this token stands on an earlier line"},
		{"a viewer " + secret + "\x00", "line 1: the token must be printable ASCII"},
		{"a viewer " + secret + "é", "line 1: the token must be printable ASCII"},
		{"a b\nc boss " + secret, "line 1: want NAME ROLE TOKEN\nline 2: the second word"},
		{"a viewer " + strings.Repeat(secret, 10_000), "line 1: "},
	} {
		tokens, err := ParseTokens(strings.NewReader(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.file, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%.60q: the error shows the token: %v", c.file, err)
		}
		if len(tokens.by) != 0 {
			t.Errorf("%.60q: tokens in spite of an error", c.file)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add(tokenFile)
	f.Add("a viewer t\r\n#\n")
	f.Fuzz(func(t *testing.T, file string) {
		tokens, err := ParseTokens(strings.NewReader(file))
		if (err == nil) != (len(tokens.by) > 0) {
			t.Fatalf("%d tokens and error %v", len(tokens.by), err)
		}
		for _, who := range tokens.by {
			if !who.Role.may(toKnock) || who.Role == roleAdmin && who.Name == "*" ||
				!strings.Contains(file, who.Name) {
				t.Errorf("%+v from %q", who, file)
			}
		}
	})
}

// TestRolesMayWhatTheContractSays tries every call with every token. A call that is let in may fail
// otherwise, but not with 401 or 403.
func TestRolesMayWhatTheContractSays(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.Tokens = testTokens(t) })
	const (
		all       = "admin operator submitter worker viewer none"
		readers   = "admin operator submitter viewer"
		preparing = "admin operator submitter viewer worker"
	)
	id := "/v1/tasks/" + idOf(3).String()
	for _, c := range []struct{ call, body, allowed string }{
		{"GET /", "", all},
		{"GET /docs", "", all},
		{"GET /page/page.js", "", all},
		{"GET /console/console.js", "", all},
		{"GET /v1/access", "", preparing},
		{"GET /healthz", "", all},
		{"GET /nowhere", "", all},
		{"GET /readyz", "", all},
		{"GET /metrics", "", readers},
		{"GET /openapi.json", "", readers},
		{"POST /v1/tasks", `{"tasks":[]}`, "admin operator submitter"},
		{"GET /v1/tasks", "", readers},
		{"POST /v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`, "admin operator worker"},
		{"POST /v1/tasks/report", `{"worker":"w1","reports":[]}`, "admin operator worker"},
		{"POST /v1/tasks/cancel", `{"filter":{"all":true}}`, "admin operator"},
		{"POST /v1/tasks/retry", `{"filter":{"all":true}}`, "admin operator"},
		{"POST /v1/tasks/patch", `{"filter":{"all":true},"set":{"delay":"0s"}}`, "admin operator"},
		{"PATCH " + id, `{"priority":"1m"}`, "admin operator"},
		{"GET " + id, "", readers},
		{"POST " + id + "/cancel", "", "admin operator submitter"},
		{"POST " + id + "/retry", "", "admin operator"},
		{"POST " + id + "/run", "", "admin operator"},
		{"POST " + id + "/children", `{"worker":"w1","token":"` + token(0) + `","tasks":[]}`,
			"admin operator worker"},
		{"GET " + id + "/children", "", readers},
		{"GET " + id + "/contexts", "", readers},
		{"GET " + id + "/tree", "", readers},
		{"POST " + id + "/signal", `{"name":"paid"}`, "admin operator submitter"},
		{"POST /v1/signals/paid", `{"key":"7"}`, "admin operator submitter"},
		{"DELETE " + id, "", "admin operator"},
		{"POST " + id + "/logs", `{"text":"x"}`, "admin operator worker"},
		{"GET " + id + "/logs", "", readers},
		{"GET /v1/queues", "", preparing},
		{"GET /v1/queues/mail", "", preparing},
		{"PUT /v1/queues/mail", "{}", "admin operator"},
		{"POST /v1/queues/mail/pause", "", "admin operator"},
		{"POST /v1/queues/mail/resume", "", "admin operator"},
		{"DELETE /v1/queues/mail?force=true", "", "admin"},
		{"GET /v1/workers", "", readers},
		{"GET /v1/workers/w1", "", readers},
		{"POST /v1/workers/w1/beat", `{"incarnation":"i"}`, "admin operator worker"},
		{"POST /v1/workers/w1/drain", "", "admin operator"},
		{"POST /v1/workers/w1/undrain", "", "admin operator"},
		{"DELETE /v1/workers/w1", "", "admin operator"},
		{"GET /v1/groups", "", readers},
		{"GET /v1/groups/tails", "", readers},
		{"PUT /v1/groups/tails", `{}`, "admin operator"},
		{"DELETE /v1/groups/tails?force=true", "", "admin"},
		{"POST /v1/groups/tails/pause", "", "admin operator"},
		{"POST /v1/groups/tails/resume", "", "admin operator"},
		{"POST /v1/groups/tails/refresh", "", "admin operator"},
		{"POST /v1/groups/tails/rebalance", "", "admin operator"},
		{"POST /v1/groups/tails/plan", `{}`, readers},
		{"GET /v1/groups/tails/assignments", "", readers},
		{"GET /v1/groups/tails/jobs", "", readers},
		{"PUT /v1/groups/tails/jobs", `{"jobs":[]}`, "admin operator"},
		{"POST /v1/groups/tails/jobs", `{"jobs":[]}`, "admin operator"},
		{"DELETE /v1/groups/tails/jobs/web.log", "", "admin operator"},
		{"GET /v1/groups/tails/jobs/web.log/explain", "", readers},
		{"POST /v1/groups/tails/jobs/access.log/logs", `{"text":"x"}`, "admin operator worker"},
		{"GET /v1/groups/tails/jobs/web.log/logs", "", readers},
		{"GET /v1/schedules", "", readers},
		{"PUT /v1/schedules", `{"schedules":[]}`, "admin operator"},
		{"GET /v1/schedules/nightly", "", readers},
		{"PUT /v1/schedules/nightly", `{}`, "admin operator"},
		{"DELETE /v1/schedules/mail", "", "admin operator"},
		{"POST /v1/schedules/nightly/pause", "", "admin operator"},
		{"POST /v1/schedules/nightly/resume", "", "admin operator"},
		{"POST /v1/schedules/nightly/run", "", "admin operator"},
		{"POST /v1/schedules/nightly/backfill", `{}`, "admin operator"},
		{"GET /v1/schedules/nightly/fires", "", readers},
		{"GET /v1/schedules/nightly/audit", "", readers},
		{"POST /v1/schedules/preview", `{"cron":"@daily"}`, readers},
		{"GET /v1/calendars", "", readers},
		{"GET /v1/calendars/de", "", readers},
		{"PUT /v1/calendars/de", `{"skip":["2026-12-25"]}`, "admin operator"},
		{"DELETE /v1/calendars/odd", "", "admin operator"},
		{"GET /v1/nodes", "", preparing},
		{"POST /v1/nodes/n2/drain", "", "admin operator"},
		{"POST /v1/nodes/n2/undrain", "", "admin operator"},
		{"GET /v1/claims", "", readers},
		{"POST /v1/claims/rescan", "", "admin operator"},
		{"POST /v1/claims/release", `{"key":"mailbox/a"}`, "admin operator"},
		{"POST /v1/claims/assign", `{"key":"mailbox/a","node":"n1"}`, "admin operator"},
		{"POST /v1/nodes/n1/release", `{"count":1}`, "admin operator"},
		{"PUT /v1/cluster", `{"rebalance":"auto"}`, "admin operator"},
		{"GET /v1/claims/mailbox%2Fa", "", readers},
		{"GET /v1/cluster", "", readers},
		{"GET /v1/events", "", readers},
		{"GET /v1/notifiers", "", readers},
		{"GET /v1/notifiers/ops", "", readers},
		{"PUT /v1/notifiers/ops", `{"kind":"webhook","on":["*"],"url":"https://example.com"}`,
			"admin"},
		{"POST /v1/notifiers/ops/test", "", "admin"},
		{"DELETE /v1/notifiers/ops", "", "admin"},
		{"GET /v1/hooks", "", readers},
		{"GET /v1/hooks/builds", "", readers},
		{"PUT /v1/hooks/builds", `{"scheme":"github","queue":"mail"}`, "admin"},
		{"DELETE /v1/hooks/builds", "", "admin"},
	} {
		for _, role := range strings.Fields(all) {
			var header []string
			if role != "none" {
				header = []string{"Authorization: Bearer " + role + "-token"}
			}
			before := len(f.changed())
			response, text := ask(t, a, c.call, c.body, header...)
			refused := response.StatusCode == http.StatusUnauthorized ||
				response.StatusCode == http.StatusForbidden
			if allowed := strings.Contains(c.allowed, role); refused == allowed {
				t.Errorf("%s as %s: %d %s", c.call, role, response.StatusCode, text)
			}
			if refused {
				if want := map[bool]int{true: 401,
					false: 403}[role == "none"]; response.StatusCode != want {
					t.Errorf("%s as %s: %d, want %d", c.call, role, response.StatusCode, want)
				}
				if len(f.changed()) != before {
					t.Errorf("%s as %s: refused and done all the same", c.call, role)
				}
			}
		}
	}
}

func TestWorkersTokenSpeaksForItsWorkerOnly(t *testing.T) {
	f := newFake()
	f.tasks = append(f.tasks, f.tasks[3])
	f.tasks[4].ID, f.tasks[4].Worker = idOf(4), "w2"
	a := newAPI(t, f, func(c *Config) { c.Tokens = testTokens(t) })
	for _, c := range []struct{ call, body string }{
		{"POST /v1/tasks/hold", `{"worker":"w2","queues":["mail"]}`},
		{"POST /v1/tasks/report", `{"worker":"w2","reports":[]}`},
		{"POST /v1/workers/w2/beat", `{"incarnation":"i"}`},
		{"POST /v1/tasks/" + idOf(4).String() + "/logs", `{"text":"x"}`},
	} {
		for token, want := range map[string]int{"worker-token": 403, "any-worker-token": 200,
			"operator-token": 200} {
			response, text := ask(t, a, c.call, c.body, "Authorization: Bearer "+token)
			if response.StatusCode != want {
				t.Errorf("%s with %s: %d %s, want %d", c.call, token, response.StatusCode, text,
					want)
			}
		}
	}
}

func TestWrongTokensAreRefusedAlike(t *testing.T) {
	var log bytes.Buffer
	a := newAPI(t, newFake(), func(c *Config) {
		c.Tokens = testTokens(t)
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	var first string
	for _, header := range []string{
		"X: y", "Authorization: Bearer", "Authorization: Bearer ", "Authorization: admin-token",
		"Authorization: Basic admin-token",
		"Authorization: Bearer  admin-token", "Authorization: Bearer admin-token ",
		"Authorization: Bearer admin-toke", "Authorization: Bearer ADMIN-TOKEN",
	} {
		response, text := ask(t, a, "GET /v1/tasks", "", header)
		if response.StatusCode != 401 ||
			!strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%q: %d, %q", header, response.StatusCode,
				response.Header.Get("WWW-Authenticate"))
		}
		if first == "" {
			first = text
		}
		if text != first || strings.Contains(text, "admin-token") {
			t.Errorf("%q: %s", header, text)
		}
	}
	if response, _ := ask(t, a, "GET /v1/tasks", "", "Authorization: bearer admin-token",
		"Host: rota.example", "Origin: https://elsewhere.example"); response.StatusCode != 200 {
		t.Errorf("with a good token: %d", response.StatusCode)
	}
	if strings.Contains(log.String(), "admin-tok") {
		t.Errorf("a token stands in the log: %s", &log)
	}
}

func TestWhoeverActsIsNamed(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.Tokens = testTokens(t) })
	ask(t, a, "POST /v1/tasks/"+idOf(1).String()+"/cancel", "",
		"Authorization: Bearer submitter-token")
	ask(t, a, "POST /v1/tasks/cancel", `{"filter":{"all":true}}`,
		"Authorization: Bearer operator-token")
	got := strings.Join(f.changed(), "\n")
	if !strings.Contains(got, "act cancelled app "+idOf(1).String()) ||
		!strings.Contains(got, "act cancelled ops {") {
		t.Errorf("done: %s", got)
	}
}

func TestWithoutTokensOnlyThisMachineIsAnswered(t *testing.T) {
	local := newAPI(t, newFake(), nil)
	open := newAPI(t, newFake(), func(c *Config) { c.AnyHost = true })
	for _, c := range []struct {
		call, header        string
		localWant, openWant int
	}{
		{"GET /v1/queues", "Host: localhost", 200, 200},
		{"GET /v1/queues", "Host: LOCALHOST:7700", 200, 200},
		{"GET /v1/queues", "Host: 127.0.0.1:7700", 200, 200},
		{"GET /v1/queues", "Host: 127.9.9.9", 200, 200},
		{"GET /v1/queues", "Host: [::1]:7700", 200, 200},
		{"GET /v1/queues", "Host: [::1]", 200, 200},
		{"GET /v1/queues", "Host: rebound.example:7700", 403, 200},
		{"GET /v1/queues", "Host: localhost.example", 403, 200},
		{"GET /v1/queues", "Host: 192.168.0.1:7700", 403, 200},
		{"GET /v1/queues", "Host: 0.0.0.0", 403, 200},
		{"GET /healthz", "Host: rebound.example", 403, 200},
		{"GET /v1/queues", "Origin: http://localhost:7700", 200, 200},
		{"GET /v1/queues", "Origin: http://localhost:9999", 403, 403},
		{"GET /v1/queues", "Origin: null", 403, 403},
		{"POST /v1/queues/mail/pause", "Origin: http://localhost:7700", 200, 200},
		{"POST /v1/queues/mail/pause", "Origin: https://evil.example", 403, 403},
		{"POST /v1/queues/mail/pause", "Sec-Fetch-Site: cross-site", 403, 403},
		{"POST /v1/queues/mail/pause", "Sec-Fetch-Site: same-origin", 200, 200},
		{"GET /", "Sec-Fetch-Site: cross-site", 200, 200}, // a link
		{"GET /v1/queues", "Sec-Fetch-Site: cross-site", 403, 403},
		{"GET /v1/queues", "Sec-Fetch-Site: same-site", 403, 403}, // another port
		{"GET /v1/queues", "Sec-Fetch-Site: same-origin", 200, 200},
		{"GET /v1/queues", "Sec-Fetch-Site: none", 200, 200},
		{"GET /v1/events/stream", "Sec-Fetch-Site: cross-site", 403, 403},
		{"GET /metrics", "Sec-Fetch-Site: cross-site", 403, 403},
		{"GET /v1/queues", "Referer: https://evil.example/page", 403, 403},
		{"GET /v1/queues", "Referer: http://localhost:7700/", 200, 200},
		{"GET /v1/queues", "Referer: http://localhost:9999/", 403, 403},
	} {
		for _, v := range []struct {
			api  *API
			want int
		}{{local, c.localWant}, {open, c.openWant}} {
			response, text := ask(t, v.api, c.call, "", c.header)
			if response.StatusCode != v.want {
				t.Errorf("%s, %s: %d %.200s, want %d", c.call, c.header, response.StatusCode, text,
					v.want)
			}
		}
	}
}

func TestNoAnswerIsSniffed(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	for _, call := range []string{"GET /v1/queues", "GET /v1/tasks/x", "GET /nowhere",
		"GET /metrics", "GET /openapi.json", "GET /", "GET /healthz", "POST /v1/tasks",
		"DELETE /v1/queues/none"} {
		if response, _ := ask(t, a, call,
			""); response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", call)
		}
	}
}

// A balancer needs no token to learn whether to send calls here; what the node says of itself is
// for those it knows. A wrong token is none: balancers keep old ones for years, and none of them is
// a guess.
func TestProbesNeedNoTokenAndTheirDetailsDo(t *testing.T) {
	ready := true
	a := newAPI(t, newFake(), func(c *Config) {
		c.Tokens, c.Node, c.StoreMark = testTokens(t), "n1", "f00d"
		c.Ready = func(context.Context) Readiness { return readiness(ready)(t.Context()) }
		c.Peer = func(*http.Request) (string, bool) { return "n2", false }
	})
	strangers := [][]string{
		nil, {"Authorization: Bearer wrong"}, {"Authorization: Basic wrong"},
		{"Authorization: " + pass.Scheme + " n2 0 x"},
	}
	for range 50 {
		for _, header := range strangers {
			for _, c := range []struct {
				call   string
				ready  bool
				status int
				text   string
			}{
				{"GET /healthz", true, http.StatusOK, `{"status":"ok"}`},
				{"GET /readyz", true, http.StatusOK, `{"status":"ok"}`},
				{"GET /healthz", false, http.StatusOK, `{"status":"ok"}`},
				{"GET /readyz", false, http.StatusServiceUnavailable, `{"status":"unavailable"}`},
			} {
				ready = c.ready
				response, text := ask(t, a, c.call, "", header...)
				if strings.TrimSpace(text) != c.text || response.StatusCode != c.status ||
					response.Header.Get("Content-Type") != "application/json" {
					t.Fatalf("%s with %q: %d %s", c.call, header, response.StatusCode, text)
				}
			}
		}
	}
	for _, who := range []string{"admin", "operator", "submitter", "worker", "viewer"} {
		_, text := ask(t, a, "GET /healthz", "", "Authorization: Bearer "+who+"-token")
		if !strings.Contains(text, `"node":"n1"`) || !strings.Contains(text, `"store":"f00d"`) {
			t.Errorf("to %s: %s", who, text)
		}
		_, text = ask(t, a, "GET /readyz", "", "Authorization: Bearer "+who+"-token")
		if strings.Contains(text, `"durability"`) != (who != "worker") ||
			!strings.Contains(text, `"status":"unavailable"`) {
			t.Errorf("to %s: %s", who, text)
		}
	}
}

// Whoever beats as a worker can make it lose all that it has in hands, of whatever queue: a token
// with a scope that is for any worker must not reach so far.
func TestTokenWithAScopeIsForNoWorkerThatHasItsOwn(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) {
		c.Tokens = tokensOf(t, "w1 worker own queues=mail groups=tails\nw2 worker free\n"+
			"* worker any\n* worker some queues=scan\n"+
			"ops operator ops\nhalf operator half queues=scan")
	})
	for _, c := range []struct {
		bearer, worker string
		want           int
	}{
		{"own", "w1", 200}, {"own", "w2", 403}, {"free", "w2", 200}, {"free", "w1", 403},
		{"any", "w1", 200}, {"any", "w3", 200}, {"ops", "w1", 200},
		{"some", "w1", 403}, {"some", "w2", 403}, {"some", "w3", 200},
		{"half", "w1", 403}, {"half", "w2", 403}, {"half", "w3", 200},
	} {
		queue := "scan"
		if c.bearer == "own" {
			queue = "mail"
		}
		p := dialed(t, a, "Authorization: Bearer "+c.bearer)
		for call, body := range map[string]string{
			"POST /v1/workers/" + c.worker + "/beat": `{"incarnation":"new","capacity":1,"tasks":[],` +
				`"leaving":true}`,
			"POST /v1/tasks/hold": fmt.Sprintf(`{"worker":%q,"queues":[%q],"incarnation":"new"}`,
				c.worker, queue),
		} {
			response, text := ask(t, a, call, body, "Authorization: Bearer "+c.bearer)
			if response.StatusCode != c.want {
				t.Errorf("%s by %s: %d %s, want %d", call, c.bearer, response.StatusCode, text,
					c.want)
			}
		}
		beat := frame.AppendBeat(nil, task.Beat{Worker: c.worker, Incarnation: "new"})
		if status, text := p.ask(frame.Beat, beat); status != c.want {
			t.Errorf("a beat of %s on a stream by %s: %d %s", c.worker, c.bearer, status, text)
		}
		hold := frame.AppendHold(nil, task.HoldRequest{Worker: c.worker, Queues: []string{queue}})
		if status, text := p.ask(frame.Hold, hold); status != c.want {
			t.Errorf("a hold of %s on a stream by %s: %d %s", c.worker, c.bearer, status, text)
		}
		settled(t, a)
	}
}
