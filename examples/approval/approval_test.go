package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
)

// box keeps mails.
type box struct {
	mu    sync.Mutex
	mails []string
}

func (b *box) mail(to, text string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	kind, _, _ := strings.Cut(text, ":")
	b.mails = append(b.mails, to+" "+kind)
	return nil
}

func (b *box) is(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if fmt.Sprint(b.mails) != fmt.Sprint(want) {
		t.Errorf("mails %q, want %q", b.mails, want)
	}
}

var tea = Expense{Who: "ann", What: "tea", Cents: 700}

const (
	asked    = "manager ann wants 700 cents for tea"
	reminded = "manager still waiting"
)

func submit(t *testing.T, r *rotatest.Rig) task.ID {
	t.Helper()
	got, err := r.Submit(t.Context(), ask.New(tea))
	if err != nil {
		t.Fatal(err)
	}
	return got[0].ID
}

func TestAManagerWhoSaysNothingIsRemindedAndDecides(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		var b box
		handle(r, time.Hour, b.mail)
		id := submit(t, r)
		r.Advance(90 * time.Minute)
		b.is(t, asked, reminded)
		got, err := r.Signal(t.Context(), task.SignalRequest{
			Task: id, Name: decided, Payload: []byte(`{"Approved":true,"By":"bob"}`),
		})
		if err != nil || !got.Delivered {
			t.Fatalf("%+v, %v", got, err)
		}
		r.Advance(time.Second)
		b.is(t, asked, reminded, "ann approved")
		rotatest.RequireOutcome(t, r, id, rota.Finish("approved by bob"))
	})
}

func TestNobodyIsAskedForEver(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		var b box
		handle(r, time.Hour, b.mail)
		id := submit(t, r)
		r.Advance(5 * time.Hour)
		b.is(t, asked, reminded, reminded, reminded)
		rotatest.RequireOutcome(t, r, id, rota.Finish("nobody decided"))
		_, err := r.Signal(t.Context(), task.SignalRequest{Task: id, Name: decided})
		if !errors.Is(err, rota.ErrConflict) {
			t.Errorf("a late decision: %v", err)
		}
	})
}

// The service as people use it; of two decisions the first counts, also when the server was
// restarted between the question and the answer.
func TestADecisionOverHTTP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "approval.db")
	var b box
	var id string
	serve := func(f func(post func(path, body string) string, node *rota.Node)) {
		node, err := rota.Open(t.Context(), rota.Config{Store: "sqlite:" + file, Name: "approval"})
		if err != nil {
			t.Fatal(err)
		}
		handle(node, time.Hour, b.mail)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- node.Run(ctx) }()
		s := httptest.NewServer(pages(node))
		f(func(path, body string) string {
			response, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			return fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
		}, node)
		s.Close()
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	serve(func(post func(path, body string) string, node *rota.Node) {
		status := post("/expenses", `{"Who":"ann","What":"tea","Cents":700}`)
		id = strings.TrimPrefix(status, "200 ")
		if got := post("/expenses/nonsense/decision", `{}`); !strings.HasPrefix(got, "404") {
			t.Errorf("a decision on nothing: %s", got)
		}
	})
	serve(func(post func(path, body string) string, node *rota.Node) {
		for _, d := range []string{`{"Approved":false,"By":"bob"}`, `{"Approved":true,"By":"ann"}`} {
			if got := post("/expenses/"+id+"/decision", d); got != "200 " {
				t.Errorf("decision %s: %s", d, got)
			}
		}
		of, err := task.ParseID(id)
		if err != nil {
			t.Fatal(err)
		}
		v, err := node.Task(t.Context(), of, 20*time.Second)
		if err != nil || v.State != task.Done || string(v.Result) != `"refused by bob"` {
			t.Errorf("it is %s, %s, %v", v.State, v.Result, err)
		}
	})
}
