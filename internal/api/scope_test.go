package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

func TestScopesAreReadFromTheTokenFile(t *testing.T) {
	tokens, err := ParseTokens(
		strings.NewReader(
			"w1 worker secret-1 queues=mail,img-* groups=feeds labels=zone:a,gpu:*,team-*:x capacity=2.5\nw2 worker secret-2",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	var s *scope
	for _, p := range tokens.by {
		switch p.Name {
		case "w1":
			s = p.scope
		case "w2":
			if p.scope != nil {
				t.Error("a line as before has a scope")
			}
		}
	}
	for _, c := range []struct {
		what      string
		got, want bool
	}{
		{"queue mail", s.queue("mail"), true}, {"queue img-1", s.queue("img-1"), true},
		{"queue img-", s.queue("img-"), true},
		{"queue mail2", s.queue("mail2"), false}, {"queue img", s.queue("img"), false},
		{"queue ''", s.queue(""), false},
		{"group feeds", s.group("feeds"), true}, {"group mail", s.group("mail"), false},
		{"zone a", s.label("zone", "a"), true}, {"zone b", s.label("zone", "b"), false},
		{"gpu yes", s.label("gpu", "yes"), true}, {"gpu ''", s.label("gpu", ""), true},
		{"team-1 x", s.label("team-1", "x"), true}, {"team-1 y", s.label("team-1", "y"), false},
		{"disk", s.label("disk", "a"), false},
		{"no scope", (*scope)(nil).queue("x") && (*scope)(nil).group("x") &&
			(*scope)(nil).label("x", "y"), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", c.what, c.got)
		}
	}
	const secret = "s3cret-value"
	for line, want := range map[string]string{
		"w worker a " + secret:                                      "behind that at most",
		"w worker a queue=" + secret:                                "behind that at most",
		"w worker a queues=":                                        "behind that at most",
		"w worker a queues=a queues=b":                              "behind that at most",
		"w worker a queues=a,,b":                                    "queues= must list names",
		"w worker a queues=a*b":                                     "queues= must list names",
		"w worker a groups=**":                                      "groups= must list names",
		"w worker a labels=" + secret:                               "labels= must list",
		"w worker a labels=:" + secret:                              "labels= must list",
		"w worker a capacity=" + secret:                             "capacity= must be",
		"w worker a capacity=0":                                     "capacity= must be",
		"w worker a capacity=NaN":                                   "capacity= must be",
		"root admin a queues=a":                                     "an admin reaches everything",
		"w worker a queues=" + strings.Repeat("a,", maxScope) + "a": "behind that at most",
	} {
		if _, err := ParseTokens(strings.NewReader(line)); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60q: %v, want %q", line, err, want)
		}
	}
}

// scoped are tokens of each role that may have a scope: one that reaches what the calls below are
// about, and one that does not.
func scoped(t *testing.T) Tokens {
	t.Helper()
	var file strings.Builder
	file.WriteString(tokenFile)
	for _, role := range []string{"operator", "submitter", "worker", "viewer"} {
		fmt.Fprintf(&file, "w1 %s %[1]s-in queues=mail groups=tails labels=* capacity=8\n", role)
		fmt.Fprintf(&file, "w1 %s %[1]s-out queues=elsewhere groups=elsewhere\n", role)
	}
	tokens, err := ParseTokens(strings.NewReader(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// chosen says what is sent to the calls that look at the names in their body: first about what is
// in the scope, then, where it is not "-", about more.
var chosen = map[string][2]string{
	"POST /v1/tasks": {`{"tasks":[{"queue":"mail"}]}`,
		`{"tasks":[{"queue":"mail"},{"queue":"scan"}]}`},
	"GET /v1/tasks": {"?queue=mail", "?queue=scan"},
	"POST /v1/tasks/hold": {`{"worker":"w1","queues":["mail"]}`,
		`{"worker":"w1","queues":["mail","scan"]}`},
	"POST /v1/tasks/report": {`{"worker":"w1","reports":[]}`, "-"},
	"POST /v1/tasks/cancel": {`{"filter":{"queue":"mail"}}`, `{"filter":{"all":true}}`},
	"POST /v1/tasks/retry": {`{"filter":{"queue":"mail","state":"dead"}}`,
		`{"filter":{"state":"dead"}}`},
	"POST /v1/tasks/patch": {`{"filter":{"queue":"mail"},"set":{"delay":"0s"}}`,
		`{"filter":{"state":"waiting"},"set":{"delay":"0s"}}`},
	"GET /v1/stats":           {"?queue=mail", "?queue=scan"},
	"GET /v1/forecast":        {"?queue=mail", "?queue=scan"},
	"GET /v1/overview":        {"", "-"},
	"GET /v1/overview/stream": {"", "-"},
	"GET /v1/queues":          {"", "-"},
	"POST /v1/workers/{worker}/beat": {`{"incarnation":"i","capacity":1,"groups":["tails"],"tasks":[]}`,
		`{"incarnation":"i","capacity":1,"groups":["tails","web"],"tasks":[]}`},
	"GET /v1/groups":    {"", "-"},
	"GET /v1/schedules": {"", "-"},
	"PUT /v1/schedules": {`{"schedules":[{"name":"mail","queue":"mail"},{"name":"new","cron":"@daily","queue":"mail"}]}`,
		`{"schedules":[{"name":"mail","paused":true},{"name":"nightly","paused":true}]}`},
	"PUT /v1/schedules/{name}": {`{"queue":"mail"}`, `{"queue":"reports"}`},
}

// everywhere are calls that a token may make whatever its scope: they name nothing, or answer with
// what is in it.
var everywhere = []string{
	"GET /v1/queues", "GET /v1/groups", "GET /v1/schedules", "POST /v1/tasks/report",
	"GET /v1/overview", "GET /v1/overview/stream",
}

// harmless are calls whose answer tells of no queue and no group, or nothing but what everybody
// must know.
var harmless = []string{
	"GET /readyz", "GET /healthz", "GET /openapi.json", "GET /v1/nodes",
	"POST /v1/schedules/preview", "GET /v1/calendars", "GET /v1/calendars/{calendar}",
	"GET /v1/access", "GET /v1/stream",
}

// mayBeAbout says what a call may be about, by its path.
func mayBeAbout(call string) []reach {
	switch {
	case strings.Contains(call, "{queue}"):
		return []reach{ofQueue}
	case strings.Contains(call, "{group}"):
		return []reach{ofGroup}
	case strings.Contains(call, "/v1/tasks/{id}"):
		return []reach{ofTask}
	case call == "PUT /v1/schedules/{name}":
		return []reach{ofChosen}
	case strings.Contains(call, "/v1/schedules/{name}"):
		return []reach{ofSchedule}
	case slices.Contains(harmless, call):
		return []reach{ofNothing}
	}
	return []reach{ofAll, ofChosen}
}

// TestEveryCallKeepsToTheScope walks the OpenAPI document: each call, with a token of each role,
// with and without a scope that it lies in. A new call fails it unless reaches says what a scope
// means for it, and, when its handler is to look, chosen has a case.
func TestEveryCallKeepsToTheScope(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.Tokens = scoped(t) })
	a.close() // streams end
	if !slices.Equal(slices.Sorted(maps.Keys(rights)), slices.Sorted(maps.Keys(reaches))) {
		t.Fatal("rights and reaches are about different calls")
	}
	s := readSpec(t, a)
	calls := 0
	for path, operations := range s.Paths {
		for method, op := range operations {
			calls++
			call := strings.ToUpper(method) + " " + path
			need, about := rights[call], reaches[call]
			if need == toDeliver {
				continue // it is signed, and no token is looked at: see hooks_test.go
			}
			if !slices.Contains(mayBeAbout(call), about) {
				t.Errorf("%s: reaches says %d, its path says %v", call, about, mayBeAbout(call))
			}
			target := strings.NewReplacer("{queue}", "mail", "{group}", "tails", "{job}",
				"access.log", "{id}", idOf(2).String(), "{worker}", "w1", "{calendar}", "de",
				"{node}", "n2").Replace(path)
			if strings.HasPrefix(path, "/v1/schedules") {
				target = strings.Replace(target, "{name}", "mail", 1)
			}
			target = strings.Replace(target, "{name}", "ops", 1)
			body, more := "", ""
			for _, content := range op.RequestBody.Content {
				body = string(content.Example)
			}
			if about == ofChosen {
				with, known := chosen[call]
				if !known {
					t.Errorf(
						"%s: its handler looks at the scope, and no case of this test says how",
						call,
					)
					continue
				}
				body, more = with[0], with[1]
			}
			for _, role := range []role{roleOperator, roleSubmitter, roleWorker, roleViewer} {
				for scope, reached := range map[string]bool{"in": true, "out": false} {
					try := func(body string, want bool) {
						t.Helper()
						target, query := target, ""
						if role != roleWorker { // w1 has a token of its own
							target = strings.Replace(target, "/w1/", "/w9/", 1)
							body = strings.Replace(body, `"worker":"w1"`, `"worker":"w9"`, 1)
						}
						if method == "get" {
							query, body = body, ""
						}
						before := len(f.changed())
						response, text := ask(t, a, strings.ToUpper(method)+" "+target+query, body,
							fmt.Sprintf("Authorization: Bearer %s-%s", role, scope))
						refused := response.StatusCode == http.StatusForbidden
						if refused == want || response.StatusCode == http.StatusUnauthorized {
							t.Errorf("%s %s as %s with a scope that it lies %s: %d %.300s", call,
								query+body, role, scope, response.StatusCode, text)
						} else if refused && len(f.changed()) != before {
							t.Errorf("%s as %s-%s: refused and done all the same", call, role,
								scope)
						}
						if list := about == ofChosen && method == "get"; list &&
							strings.Contains(text, `"items"`) {
							for _, alien := range []string{`"scan"`, `"reports"`, `"web"`} {
								if strings.Contains(text, alien) {
									t.Errorf("%s as %s-%s shows %s", call, role, scope, alien)
								}
							}
							if !reached && strings.Contains(text, `"name"`) {
								t.Errorf("%s as %s-%s shows %s", call, role, scope, text)
							}
						}
					}
					may := role.may(need)
					switch about {
					case ofNothing:
						try(body, may)
					case ofAll:
						try(body, false)
					case ofChosen:
						try(body, may && (reached || slices.Contains(everywhere, call)))
						if more != "-" {
							try(more, false)
						}
					default:
						try(body, may && reached)
					}
				}
			}
		}
	}
	if calls < 60 {
		t.Errorf("only %d calls were tried", calls)
	}
}

// What a call is about is told by the task or schedule that its path names, not by the words of the
// path.
func TestTasksAndSchedulesOfOtherQueuesAreOutOfScope(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.Tokens = scoped(t) })
	for _, call := range []string{
		"GET /v1/tasks/" + idOf(3).String(), "GET /v1/tasks/" + idOf(3).String() + "/logs",
		"POST /v1/tasks/" + idOf(3).String() + "/cancel",
		"DELETE /v1/tasks/" + idOf(3).String(), "GET /v1/schedules/nightly",
		"GET /v1/schedules/nightly/fires", "POST /v1/schedules/nightly/run",
		"DELETE /v1/schedules/nightly", "GET /v1/queues/scan", "POST /v1/queues/scan/pause",
	} {
		if response, text := ask(
			t, a, call, "", "Authorization: Bearer operator-in",
		); response.StatusCode != 403 {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
	}
	for call, want := range map[string]int{"GET /v1/tasks/" + idOf(99).String(): 404,
		"GET /v1/schedules/nobody": 404, "GET /v1/tasks/x": 404} {
		if response, text := ask(
			t, a, call, "", "Authorization: Bearer operator-in",
		); response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", call, response.StatusCode, text, want)
		}
	}
	if got := f.changed(); len(got) > 0 {
		t.Errorf("done: %v", got)
	}
	for body, want := range map[string]int{
		`{"cron":"@daily","queue":"mail"}`: 201, `{"queue":"mail","after":"nightly"}`: 403,
		`{"queue":"mail","after":"mail"}`: 201, `{"cron":"@daily","queue":"scan"}`: 403,
	} {
		if response, text := ask(
			t, a, "PUT /v1/schedules/fresh", body, "Authorization: Bearer operator-in",
		); response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", body, response.StatusCode, text, want)
		}
	}
}

// What a task waits for may be of any queue: the explanation says of those that are out of scope
// neither the queue nor the state.
func TestExplanationTellsNothingOfTasksOutOfScope(t *testing.T) {
	f := newFake()
	f.tasks = append(f.tasks, task.View{
		ID: idOf(7), Queue: "mail", State: task.Blocked, Attempt: 1, Created: moment,
		Awaits: &task.Awaits{Others: true}, After: []task.Prior{
			{ID: idOf(3), If: task.IfDone}, {ID: idOf(1), If: task.IfDone},
			{ID: idOf(99), If: task.IfDone},
		},
	})
	a := newAPI(t, f, func(c *Config) { c.Tokens = scoped(t) })
	call := "GET /v1/tasks/" + idOf(7).String() + "/explain"
	for token, want := range map[string][]string{
		"viewer-in": {idOf(3).String() + " (of a queue that this token does not reach)",
			idOf(1).String() + " (ready, queue mail)", idOf(99).String() + " (gone)",
			`"change":"rota task explain ` + idOf(1).String() + `"`},
		"admin-token": {idOf(3).String() + " (running, queue scan)"},
	} {
		response, text := ask(t, a, call, "", "Authorization: Bearer "+token)
		for _, part := range want {
			if response.StatusCode != http.StatusOK || !strings.Contains(text, part) {
				t.Errorf("%s: %d %s, want %q", token, response.StatusCode, text, part)
			}
		}
		if token == "viewer-in" && strings.Contains(text, "scan") {
			t.Errorf("%s: %s", token, text)
		}
	}
}

func TestWorkerDeclaresOnlyWhatItsTokenSays(t *testing.T) {
	tokens, err := ParseTokens(
		strings.NewReader(
			"w1 worker token queues=mail groups=tails labels=zone:a,gpu:* capacity=8\nw2 worker token-2 queues=mail",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, newFake(), func(c *Config) { c.Tokens = tokens })
	for body, want := range map[string]int{
		`{"incarnation":"i","capacity":8,"groups":["tails"],"labels":{"gpu":"yes"},"zone":"a","tasks":[]}`:                           200,
		`{"incarnation":"i","capacity":9,"tasks":[]}`:                                                                                403,
		`{"incarnation":"i","capacity":1,"groups":["web"],"tasks":[]}`:                                                               403,
		`{"incarnation":"i","capacity":1,"labels":{"disk":"ssd"},"tasks":[]}`:                                                        403,
		`{"incarnation":"i","capacity":1,"labels":{"zone":"b"},"tasks":[]}`:                                                          403,
		`{"incarnation":"i","capacity":1,"zone":"b","tasks":[]}`:                                                                     403,
		`{"incarnation":"i","capacity":1,"tasks":[],"jobs":[{"group":"web","job":"j","replica":0,"token":"1.1","state":"running"}]}`: 403,
	} {
		if response, text := ask(
			t, a, "POST /v1/workers/w1/beat", body, "Authorization: Bearer token",
		); response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", body, response.StatusCode, text, want)
		}
	}
	for body, want := range map[string]int{
		`{"incarnation":"i","capacity":900,"tasks":[]}`:                  200,
		`{"incarnation":"i","capacity":1,"groups":["tails"],"tasks":[]}`: 403,
		`{"incarnation":"i","capacity":1,"zone":"a","tasks":[]}`:         403,
	} {
		if response, text := ask(
			t, a, "POST /v1/workers/w2/beat", body, "Authorization: Bearer token-2",
		); response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", body, response.StatusCode, text, want)
		}
	}
}

// A worker's token settles only what was handed out to the worker that it names, of queues in its
// scope; "*" settles for any.
func TestWorkerSettlesOnlyItsOwn(t *testing.T) {
	f := newFake()
	secret := seal.Secret{Key: [32]byte{1}}
	tokens, err := ParseTokens(
		strings.NewReader(
			"w1 worker one\n* worker any\n* worker mail queues=mail\nops operator ops\nsome operator some queues=mail",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, f, func(c *Config) { c.Tokens, c.Secret = tokens, secret })
	for _, c := range []struct {
		bearer, as, to string // who calls, under which name, and to whom the task was handed out
		task           int32  // 3 is of queue scan, the others of mail
		want           string
	}{
		{"one", "w1", "w1", 1, "recorded"}, {"one", "w1", "w1", 3, "recorded"},
		{"one", "w1", "w2", 1, "stale"},
		{"any", "w1", "w2", 1, "recorded"}, {"any", "w9", "w2", 3, "recorded"},
		{"mail", "w2", "w2", 1, "recorded"}, {"mail", "w2", "w2", 3, "stale"},
		{"ops", "w1", "w2", 3, "recorded"}, {"some", "w1", "w2", 1, "recorded"},
		{"some", "w1", "w2", 3, "stale"},
	} {
		token := seal.NewSealer(secret).Seal(task.Token{Span: 5, SpanToken: 1}, idOf(c.task),
			c.to)
		before := len(f.changed())
		body := fmt.Sprintf(
			`{"worker":%q,"reports":[{"id":%q,"token":%q,"outcome":"next","stage":"s","context":{"command":"x"}}]}`,
			c.as, idOf(c.task), token,
		)
		response, text := ask(t, a, "POST /v1/tasks/report", body,
			"Authorization: Bearer "+c.bearer)
		if response.StatusCode != 200 || !strings.Contains(text, `"status":"`+c.want+`"`) {
			t.Errorf("%+v: %d %s", c, response.StatusCode, text)
		}
		if asked := len(f.changed()) > before; asked != (c.want == "recorded") {
			t.Errorf("%+v: the engine was asked: %v", c, asked)
		}
	}
	good := seal.NewSealer(secret).Seal(task.Token{Span: 5, SpanToken: 1}, idOf(1), "w1")
	alien := seal.NewSealer(secret).Seal(task.Token{Span: 5, SpanToken: 1}, idOf(2), "w2")
	body := fmt.Sprintf(`{"worker":"w1","reports":[{"id":%q,"token":%q,"outcome":"done"},{"id":"?","token":"1","outcome":"done"},{"id":%q,"token":%q,"outcome":"done"}]}`,
		idOf(2), alien, idOf(1), good)
	_, text := ask(t, a, "POST /v1/tasks/report", body, "Authorization: Bearer one")
	if i, j, k := strings.Index(text, `"stale"`), strings.Index(text, `"invalid"`),
		strings.Index(text, `"recorded"`); i < 0 || j < i || k < j {
		t.Errorf("one that is not its own spoils its neighbours: %s", text)
	}
}

// What a worker wrote is as good as a submission where its own token names the queue.
func TestHoldSaysWhoseContextsAreInScope(t *testing.T) {
	for _, c := range []struct {
		file, by string
		want     bool
	}{
		{"w2 worker t queues=mail", "w2", true},
		{"w2 worker t queues=ma*", "w2", true},
		{"w2 worker t queues=scan", "w2", false},
		{"w2 worker t", "w2", false},
		{"w3 worker t queues=mail", "w2", false},
		{"* worker t queues=mail", "w2", false},
		{"w2 operator t queues=mail", "w2", false},
		{"", "w2", true},
	} {
		f := newFake()
		f.hold = func(context.Context, task.HoldRequest) (task.HoldAnswer, error) {
			return task.HoldAnswer{Tasks: []task.Handout{
				{ID: idOf(1), Queue: "mail", Token: token(0), Deadline: moment, ContextBy: c.by},
				{ID: idOf(2), Queue: "mail", Token: token(0), Deadline: moment},
			}}, nil
		}
		a := newAPI(t, f, func(conf *Config) {
			if c.file == "" {
				return
			}
			tokens, err := ParseTokens(strings.NewReader(c.file + "\nroot admin admin-token"))
			if err != nil {
				t.Fatal(err)
			}
			conf.Tokens = tokens
		})
		_, text := ask(t, a, "POST /v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`,
			"Authorization: Bearer admin-token")
		answer, err := wire.ParseHandouts([]byte(text))
		if err != nil || len(answer.Tasks) != 2 || answer.Tasks[0].ContextBy != c.by ||
			answer.Tasks[0].InScope != c.want || answer.Tasks[1].ContextBy != "" ||
			answer.Tasks[1].InScope {
			t.Errorf("%q: %s", c.file, text)
		}
	}
}

func TestScopesNameQueuesOfAllScriptsHoweverTheyAreTyped(t *testing.T) {
	tokens, err := ParseTokens(strings.NewReader(
		"Рабочий worker 0123456789abcdef0123456789abcdef queues=邮件,cafe\u0301,img-* groups=مهام*\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range tokens.by {
		for queue, want := range map[string]bool{
			"邮件": true, "café": true, "cafe\u0301": true, "img-大": true, "邮": false, "cafe": false,
		} {
			if who.scope.queue(queue) != want {
				t.Errorf("queue %+q is in the scope: %v", queue, !want)
			}
		}
		if !who.scope.group("مهام-1") || who.scope.group("مهما") {
			t.Error("the group's beginning is not what counts")
		}
		if who.as("Рабочий") != nil || who.as("рабочий") == nil {
			t.Error("the token speaks for another worker")
		}
	}
	for _, bad := range []string{"queues=a/b", "queues=a\u202eb", "queues=*a", "queues=-a*"} {
		if _, err := ParseTokens(strings.NewReader(
			"w worker 0123456789abcdef0123456789abcdef " + bad + "\n")); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
