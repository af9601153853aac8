package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
)

// A handler is a function.
func TestAMailThatIsNotSentIsTriedAgain(t *testing.T) {
	h := deliverBy(flaky(1))
	if o := h(t.Context(), rota.Task[Mail]{Args: Mail{To: "a@b"}}); o.Kind != task.KindRetry {
		t.Errorf("it said %v", o)
	}
	if o := h(t.Context(), rota.Task[Mail]{Args: Mail{To: "a@b"}}); o.Kind != task.KindDone {
		t.Errorf("then it said %v", o)
	}
}

// With the engine, and a day that passes in a moment.
func TestWhoSignsUpIsWelcomedAndAskedADayLater(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		rota.Handle(r, deliver, deliverBy(flaky(2)))
		r.Submit(t.Context(), mails("ada@example.org")...)
		r.Submit(t.Context(), mails("ada@example.org")...) // the same
		r.Advance(24 * time.Hour)
		rotatest.RequireSubmitted(t, r, deliver, Mail{"ada@example.org", "Welcome!"})
		rotatest.RequireTimeline(t, r, "testdata/ada.txt")
	})
}

// flaky fails some times before it sends. Several may send at once.
func flaky(times int64) send {
	var tried atomic.Int64
	return func(context.Context, string, string, string) error {
		if tried.Add(1) <= times {
			return errors.New("the mail server is away")
		}
		return nil
	}
}

// The whole server, over HTTP, stopped and started again: what it took is sent, once.
func TestTheServerServesItsPagesAndRotaBehindThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "embedded.db")
	var mu sync.Mutex
	sent := map[string]int{}
	begin := func(send send) (url string, end func()) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- run(ctx, listener, file, send) }()
		return "http://" + listener.Addr().String(), func() {
			stop()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	}
	server, end := begin(flaky(1_000_000)) // nothing is sent before the server is stopped
	for _, x := range []struct {
		body string
		code int
	}{
		{`{"mail":"ada@example.org"}`, http.StatusAccepted},
		{`{"mail":"grace@example.org"}`, http.StatusAccepted},
		{`{"mail":"ada@example.org"}`, http.StatusAccepted},
		{`{"mail":"nobody"}`, http.StatusUnprocessableEntity},
		{`{`, http.StatusUnprocessableEntity},
	} {
		answer, err := http.Post(server+"/signups", "application/json", strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != x.code {
			t.Errorf("%s: %s", x.body, answer.Status)
		}
	}
	end()

	server, end = begin(func(_ context.Context, _, to, text string) error {
		mu.Lock()
		defer mu.Unlock()
		sent[to+": "+text]++
		return nil
	})
	defer end()
	c, err := client.New(client.Config{Servers: []string{server + "/rota"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tasks, _, err := c.Tasks(t.Context(), client.TaskFilter{Queue: "mails"}, "", 0)
	if err != nil || len(tasks) != 4 {
		t.Fatalf("tasks: %v, %v", tasks, err)
	}
	for _, v := range tasks {
		if v.Due.After(time.Now().Add(time.Hour)) {
			continue // a day later
		}
		if v, err := c.Task(t.Context(), v.ID, time.Minute); err != nil || v.State != task.Done {
			t.Errorf("task %v is %v: %v", v.ID, v.State, err)
		}
	}
	mu.Lock()
	if len(sent) != 2 || sent["ada@example.org: Welcome!"] != 1 ||
		sent["grace@example.org: Welcome!"] != 1 {
		t.Errorf("sent: %v", sent)
	}
	mu.Unlock()

	text := metricsOf(t, server)
	const own = `background_seconds_count{outcome="done",queue="mails"} 2`
	if !strings.Contains(text, own) {
		t.Errorf("the metrics don't have %q", own)
	}
	// what the store is asked for may be missing until it has answered
	counted := regexp.MustCompile(`(?m)^rota_[a-z_]+{.*queue="mails".*} 2$`)
	for until := time.Now().Add(time.Minute); !counted.MatchString(text); {
		if time.Now().After(until) {
			t.Fatalf("the metrics don't have %q", counted)
		}
		text = metricsOf(t, server)
	}
}

// metricsOf is the page of metrics of the program.
func metricsOf(t *testing.T, server string) string {
	t.Helper()
	answer, err := http.Get(server + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
