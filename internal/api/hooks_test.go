package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// caller calls the hooks of an API.
type caller struct {
	testing.TB
	engine *taker
	api    *API
	log    *bytes.Buffer
}

func newCaller(t testing.TB, change func(*Config)) *caller {
	c := &caller{TB: t, engine: &taker{fake: newFake()}, log: &bytes.Buffer{}}
	c.api = newAPI(t, c.engine, func(conf *Config) {
		conf.Log = slog.New(slog.NewTextHandler(c.log, nil))
		if change != nil {
			change(conf)
		}
	})
	return c
}

// signed are the headers of a call of a hook.
func (c *caller) signed(name string, secret store.Secret, id, body string) []string {
	c.Helper()
	h, err := c.engine.FindHook(name)
	if err != nil {
		c.Fatal(err)
	}
	set, err := hook.Sign(h, secret, id, []byte(body), time.Now())
	if err != nil {
		c.Fatal(err)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, name+": "+set[name])
	}
	return list
}

// call makes a call and says what it was answered; some are more headers.
func (c *caller) call(name, body string, headers []string, some ...string) string {
	c.Helper()
	r, text := ask(c, c.api, "POST /v1/hooks/"+name, body, append(headers, some...)...)
	if n := nounOf[*hookCalls](c, c.api).bodies.taken.Load(); n != 0 {
		c.Errorf("%d bytes of the budget for bodies were not given back", n)
	}
	if (r.StatusCode == 503) != (r.Header.Get("Retry-After") != "") && r.StatusCode != 429 {
		c.Errorf("%d comes with Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
	}
	return fmt.Sprintf("%d %s", r.StatusCode, strings.TrimSpace(text))
}

func (c *caller) want(got, want string) {
	c.Helper()
	if got != want {
		c.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatIsSignedBecomesOneTask(t *testing.T) {
	c := newCaller(t, nil)
	const body = `{"repo": "a/b"}`
	headers := c.signed("builds", hookSecret, "d-1", body)
	created := `200 {"id":"` + idOf(0).String() + `","existing":`
	c.want(c.call("builds", body, headers, "X-GitHub-Event: push"), created+"false}")
	c.want(c.call("builds", body, headers, "X-GitHub-Event: push"), created+"true}")
	older := c.signed("builds", "s3cret-older-one", "d-1", body)
	c.want(c.call("builds", body, older), created+"true}")
	c.want(c.call("builds", body, c.signed("builds", hookSecret, "d-2", body),
		"Content-Type: application/x-www-form-urlencoded"),
		`200 {"id":"`+idOf(1).String()+`","existing":false}`)
	if got, want := fmt.Sprintf("%+v", c.engine.tasks[0]), fmt.Sprintf("%+v", task.Submission{
		Queue: "mail", Stage: "new", Priority: time.Minute, Key: "hook:builds/d-1",
		KeyFor: 7 * 24 * time.Hour, GroupKey: "a/b", Meta: map[string]string{"a": "b"},
		Context: []byte(`{"hook":"builds","id":"d-1","headers":{"X-GitHub-Event":"push"},` +
			`"body":{"repo": "a/b"}}`),
	}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What is stored and not answered is sent again, and is one task.
func TestADeliveryThatWasStoredAndNotAnsweredIsOneTask(t *testing.T) {
	c := newCaller(t, nil)
	c.engine.dies = true
	const body = `{"repo": "a/b"}`
	headers := c.signed("builds", hookSecret, "d-1", body)
	if text := c.call("builds", body, headers); !strings.HasPrefix(text, "503 ") {
		t.Errorf("when nobody knows: %s", text)
	}
	c.want(c.call("builds", body, headers),
		`200 {"id":"`+idOf(0).String()+`","existing":true}`)
	if n := len(c.engine.tasks); n != 1 {
		t.Errorf("there are %d tasks", n)
	}
}

func TestWhatIsSignedBecomesASignal(t *testing.T) {
	c := newCaller(t, nil)
	for body, want := range map[string]string{
		`{"order": 7}`:       `200 {"delivered":true}`,
		`{"order": "later"}`: `200 {"delivered":false}`,
		`{"order": "again"}`: `200 {"delivered":true,"repeated":true}`,
		`{}`: `422 {"title":"Unprocessable Entity","status":422,"detail":"body/order: is not there",` +
			`"errors":[{"location":"body/order","message":"is not there"}]}`,
		`{"order": "` + strings.Repeat("x", 257) + `"}`: `422 {"title":"Unprocessable Entity",` +
			`"status":422,"detail":"body/order: must be at most 256 bytes of printable UTF-8",` +
			`"errors":[{"location":"body/order","message":"must be at most 256 bytes of printable ` +
			`UTF-8"}]}`,
	} {
		c.want(c.call("pay", body, c.signed("pay", hookSecret, "", body)), want)
	}
	if got := c.engine.changed(); !slices.Contains(got,
		`signal hook:pay 0000000000000-0 paid "7" {"order": 7} 1h0m0s`) &&
		!strings.Contains(fmt.Sprint(got), `paid "7" {"order": 7} 1h0m0s`) {
		t.Errorf("got %q", got)
	}
}

func TestSlackIsToldItsChallengeWhenItHasSigned(t *testing.T) {
	c := newCaller(t, nil)
	const body = `{"type":"url_verification","challenge":"3eZbr"}`
	c.want(c.call("talk", body, c.signed("talk", hookSecret, "", body)),
		`200 {"challenge":"3eZbr"}`)
	if text := c.call("talk", body, nil); !strings.HasPrefix(text, "401 ") {
		t.Errorf("unsigned: %s", text)
	}
	if len(c.engine.tasks) > 0 {
		t.Errorf("it is a task: %+v", c.engine.tasks)
	}
}

// Slack shows to its user what a command or a button is answered.
func TestSlacksFormsAreAnsweredNothing(t *testing.T) {
	c := newCaller(t, nil)
	const form = "Content-Type: application/x-www-form-urlencoded"
	const body = "command=%2Fdeploy&user_id=U1"
	for range 2 {
		c.want(c.call("talk", body, c.signed("talk", hookSecret, "", body), form), "200 ")
	}
	if len(c.engine.tasks) != 1 || !strings.HasSuffix(string(c.engine.tasks[0].Context),
		`"form":{"command":"/deploy","user_id":"U1"}}`) {
		t.Errorf("the tasks are %+v", c.engine.tasks)
	}
	if text := c.call("talk", body, nil, form); !strings.HasPrefix(text, "401 {") {
		t.Errorf("unsigned: %s", text)
	}
	c.engine.fails = store.ErrUnknown
	text := c.call("talk", body, c.signed("talk", hookSecret, "", body), form)
	if !strings.HasPrefix(text, "503 {") {
		t.Errorf("not stored: %s", text)
	}
}

// Nobody learns from an answer whether there is a hook, nor what was wrong with a call of it.
func TestWhateverIsWrongWithACallIsAnsweredInTheSameWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, nil)
		const body = `{"order": 7}`
		right := c.signed("pay", hookSecret, "", body)
		want := c.call("pay", body, nil)
		if !strings.HasPrefix(want, "401 ") {
			t.Fatal(want)
		}
		c.want(c.call("nobody", body, nil), want)
		c.want(c.call("nobody", body, right), want)
		c.want(c.call("NOBODY%0a", body, right), want)
		c.want(c.call("builds", body, right), want)
		c.want(c.call("pay", body+" ", right), want)
		c.want(c.call("pay", "", right), want)
		c.want(c.call("pay", body, []string{right[0] + "0"}), want)
		c.want(c.call("pay", body, c.signed("pay", "s3cret-another-one", "", body)), want)
		time.Sleep(6 * time.Minute)
		c.want(c.call("pay", body, right), want)
		r, _ := ask(t, c.api, "POST /v1/hooks/nobody", body)
		if got := r.Header.Get("Www-Authenticate"); !strings.HasPrefix(got, "HMAC-SHA256 ") {
			t.Errorf("it wants %q", got)
		}
		if len(c.engine.tasks) > 0 || len(c.engine.changed()) > 0 {
			t.Errorf("something was done: %+v", c.engine.tasks)
		}
	})
}

// As with access tokens: whoever guesses is slowed down, and whoever is right is let in.
func TestWhoGuessesSignaturesIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, nil)
		const body = `{"repo": "x"}`
		for i := range 25 {
			want := "401 "
			if i >= wrongAtOnce {
				want = "429 "
			}
			name := []string{"builds", "SECRETGUESS"}[i%2]
			if text := c.call(name, body, nil); !strings.HasPrefix(text, want) {
				t.Fatalf("guess %d: %s", i, text)
			}
		}
		right := c.signed("builds", hookSecret, "d", body)
		if text := c.call("builds", body, right); !strings.HasPrefix(text, "200 ") {
			t.Errorf("a call that is right: %s", text)
		}
		time.Sleep(time.Second)
		if text := c.call("builds", body, nil); !strings.HasPrefix(text, "401 ") {
			t.Errorf("a second later: %s", text)
		}
		log := c.log.String()
		if !strings.Contains(log, "unauthorized") || !strings.Contains(log, "by=hook:builds") ||
			strings.Contains(log, "SECRETGUESS") || strings.Contains(log, "s3cret") ||
			strings.Count(log, "\n") > 5 {
			t.Errorf("the log says %s", log)
		}
	})
}

// The signature is the access: no token, no host and no page of a call matters.
func TestASignedCallNeedsNothingElse(t *testing.T) {
	const body = `{"repo": "x"}`
	for _, tokens := range []bool{false, true} {
		c := newCaller(t, func(conf *Config) {
			if tokens {
				conf.Tokens = testTokens(t)
			}
		})
		for i, headers := range [][]string{
			{"Host: rota.example.com"}, {"Origin: https://evil.example.com"},
			{"Sec-Fetch-Site: cross-site"}, {"Authorization: Bearer wrong"},
			{"Authorization: Bearer viewer-token"}, {"Content-Type: text/plain"},
		} {
			signed := c.signed("builds", hookSecret, fmt.Sprint(i), body)
			if text := c.call("builds", body, signed, headers...); !strings.HasPrefix(text, "200 ") {
				t.Errorf("with tokens: %v, %s: %s", tokens, headers, text)
			}
			if text := c.call("builds", body, nil, headers...); !strings.HasPrefix(text, "401 ") {
				t.Errorf("with tokens: %v, unsigned, %s: %s", tokens, headers, text)
			}
		}
		for _, call := range []string{"GET /v1/hooks", "PUT /v1/hooks/builds"} {
			signed := append(c.signed("builds", hookSecret, "1", "{}"), "Host: rota.example.com")
			if r, text := ask(t, c.api, call, "{}", signed...); r.StatusCode != 401 &&
				r.StatusCode != 403 {
				t.Errorf("%s: %d %s", call, r.StatusCode, text)
			}
		}
	}
}

func TestABodyOfAHookHasAtMostAMiB(t *testing.T) {
	c := newCaller(t, func(conf *Config) { conf.MaxBody, conf.MaxBodies = 8<<20, 32<<20 })
	body := `{"repo":"` + strings.Repeat("x", hook.MaxBody) + `"}`
	for _, name := range []string{"builds", "nobody"} {
		text := c.call(name, body, c.signed("builds", hookSecret, "d", body))
		if !strings.HasPrefix(text, "413 ") {
			t.Errorf("%s: %.200s", name, text)
		}
	}
	body = `{"repo":"x","pad":"` + strings.Repeat("x", hook.MaxBody-21) + `"}`
	if text := c.call("builds", body, c.signed("builds", hookSecret, "d", body)); len(body) !=
		hook.MaxBody || !strings.HasPrefix(text, "200 ") {
		t.Errorf("of %d bytes: %.200s", len(body), text)
	}
	nounOf[*hookCalls](t, c.api).bodies.take(maxHookBodies, 0)
	r, text := ask(t, c.api, "POST /v1/hooks/builds", "{}")
	if r.StatusCode != 503 || !strings.Contains(text, "too many large requests") {
		t.Errorf("when others have the memory: %d %s", r.StatusCode, text)
	}
	if r, text := ask(t, c.api, "PUT /v1/queues/mail", "{}"); r.StatusCode != 200 {
		t.Errorf("another call then: %d %s", r.StatusCode, text)
	}
}

func TestWhatIsNotStoredIsNotAnswered2xx(t *testing.T) {
	const body = `{"repo": "x"}`
	for _, e := range []struct {
		err  error
		want string
	}{
		{store.ErrOutOfReach, "503 "}, {store.ErrUnknown, "503 "}, {store.ErrBusy, "503 "},
		{store.ErrFull, "507 "}, {store.ErrClosed, "503 "}, {context.Canceled, "503 "},
		{errors.New("disk on fire"), "503 "},
		{&task.InvalidError{TooLarge: true, Fields: []task.FieldError{
			{Location: "body.tasks[0].context", Message: "is larger than 64 bytes"},
		}}, `413 {"title":"Request Entity Too Large","status":413,"detail":"body: is larger than 64 ` +
			`bytes","errors":[{"location":"body","message":"is larger than 64 bytes"}]}`},
	} {
		c := newCaller(t, nil)
		c.engine.fails = e.err
		text := c.call("builds", body, c.signed("builds", hookSecret, "d", body))
		if !strings.HasPrefix(text, e.want) {
			t.Errorf("%v: %s", e.err, text)
		}
		c.engine.fails, c.engine.err = nil, e.err
		if text := c.call("builds", body, nil); strings.HasPrefix(text, "2") ||
			strings.HasPrefix(text, "401") {
			t.Errorf("hooks that can't be read, %v: %s", e.err, text)
		}
	}
	c := newCaller(t, func(conf *Config) {
		conf.Reach = func() error { return store.ErrOutOfReach }
	})
	text := c.call("builds", body, c.signed("builds", hookSecret, "d", body))
	if !strings.HasPrefix(text, "503 ") {
		t.Errorf("without a store: %s", text)
	}
}

func TestCallsOfHooksAreCounted(t *testing.T) {
	c := newCaller(t, nil)
	shown := func() (list []string) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(c.api.metrics.hooks.calls)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				list = append(list, fmt.Sprint(m.GetLabel()[0].GetValue(), " ",
					m.GetLabel()[1].GetValue(), " ", m.GetCounter().GetValue()))
			}
		}
		return list
	}
	total := func(want ...string) {
		t.Helper()
		if got := shown(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	total()
	for _, body := range []string{`{"repo": "x"}`, `{"repo": "x"}`, `{}`} {
		c.call("builds", body, c.signed("builds", hookSecret, "d", body))
		c.call("builds", body, nil)
		c.call("guess", body, nil)
	}
	c.engine.fails = store.ErrUnknown
	c.call("builds", `{"repo": 1}`, c.signed("builds", hookSecret, "d", `{"repo": 1}`))
	total(" refused 6", "builds created 1", "builds existing 1", "builds failed 1",
		"builds invalid 1")
	ask(t, c.api, "DELETE /v1/hooks/builds", "")
	total(" refused 6")
	for i := range maxSeries + 5 {
		c.api.metrics.hooks.count(fmt.Sprint("h", i), hookCreated)
	}
	if n := len(shown()); n != maxSeries+2 {
		t.Errorf("there are %d series", n)
	}
}

func TestHooksAreListedInPages(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	r, text := ask(t, a, "GET /v1/hooks?limit=2", "")
	if r.StatusCode != http.StatusOK || !strings.Contains(text, `"secret_count":2`) ||
		strings.Contains(text, "talk") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}

// Who announces large bodies and sends them slowly takes the memory of all: without a rule signed
// calls would be refused for as long as a body may take.
func TestSlowBodiesGiveWayToSignedCalls(t *testing.T) {
	e := &taker{fake: newFake()}
	serve(t, e, func(t *testing.T, _ *http.Server, p *pipes) {
		const sent = 16*firstHookRead + 1 // a fourth of the memory that is taken for it
		var group sync.WaitGroup
		defer group.Wait()
		var cut atomic.Int64
		for range maxHookBodies / (64 * firstHookRead) {
			c := p.dial()
			group.Go(func() {
				fmt.Fprintf(c, "POST /v1/hooks/guess HTTP/1.1\r\nHost: x\r\n"+
					"Content-Length: %d\r\n\r\n%s", hook.MaxBody, strings.Repeat("x", sent))
				text, after := untilCut(t, c)
				if !strings.HasPrefix(text, "HTTP/1.1 408 ") {
					t.Errorf("a slow body is answered %.40q", text)
				}
				if after < 10*time.Second {
					cut.Add(1)
				}
			})
		}
		synctest.Wait()
		body := `{"repo":"` + strings.Repeat("x", 100) + `","pad":"` +
			strings.Repeat("x", 2*firstHookRead) + `"}`
		call := func() string {
			c := p.dial()
			defer c.Close()
			set, err := hook.Sign(&hooked[0], hookSecret, "d", []byte(body), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "POST /v1/hooks/builds HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n",
				len(body))
			for name, value := range set {
				fmt.Fprintf(c, "%s: %s\r\n", name, value)
			}
			go fmt.Fprint(c, "\r\n", body)
			answer, err := bufio.NewReader(c).ReadString('\n')
			if err != nil {
				t.Error(err)
			}
			return answer
		}
		if got := call(); !strings.Contains(got, " 503 ") {
			t.Errorf("at once: %s", got)
		}
		time.Sleep(slowBody)
		for range 3 {
			if got := call(); !strings.Contains(got, " 200 ") {
				t.Errorf("when others are slow: %s", got)
			}
		}
		time.Sleep(slowBody) // net/http lingers
		if n := cut.Load(); n != 1 {
			t.Errorf("%d slow bodies were cut off for the room of one", n)
		}
	})
}

// Series of hooks that another node deleted would stand for ever, and take the place of others.
func TestSeriesOfHooksThatAreNoMoreAreDropped(t *testing.T) {
	c := newCaller(t, nil)
	hooks := c.api.metrics.hooks
	hooks.count("gone", hookCreated)
	hooks.count("pay", hookSignal)
	c.call("builds", "{}", nil)
	hooks.mu.Lock()
	defer hooks.mu.Unlock()
	if hooks.own["gone"] || !hooks.own["pay"] {
		t.Errorf("series are there of %v", hooks.own)
	}
}
