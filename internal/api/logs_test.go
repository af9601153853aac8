package api

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// add adds a line to the fake's log.
func (f *fake) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, task.LogLine{Time: moment, Stream: "stdout", Text: text})
}

func (f *fake) finish(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks[i].State = task.Done
}

// received is an event, and when it came.
type received struct {
	id, data string
	after    time.Duration
}

// followed reads the stream of a task's log to its end.
func followed(
	t *testing.T, p *pipes, cursor string, header ...string,
) (events []received, ended time.Duration) {
	t.Helper()
	target := fmt.Sprintf("/v1/tasks/%v/logs?follow=true", idOf(3))
	if cursor != "" {
		target += "&cursor=" + cursor
	}
	return followedAt(t, p, target, header...)
}

// followedAt reads a stream to its end.
func followedAt(
	t *testing.T, p *pipes, target string, header ...string,
) (events []received, ended time.Duration) {
	t.Helper()
	c := p.dial()
	defer c.Close()
	start := time.Now()
	go fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", target,
		strings.Join(header, ""))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	var e received
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			e.id = value
		case field == "data":
			e.data = value
		case lines.Text() == ":":
			e.data = "comment"
		case lines.Text() == "":
			e.after = time.Since(start)
			events = append(events, e)
			e = received{}
		}
	}
	return events, time.Since(start)
}

func TestFollowedLogStreamsUntilTheTaskIsFinalAndDrained(t *testing.T) {
	f := newFake()
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		time.AfterFunc(3100*time.Millisecond, func() { f.add("three") })
		time.AfterFunc(5100*time.Millisecond, func() { f.finish(3) })
		time.AfterFunc(5600*time.Millisecond, func() { f.add("last words") }) // after the report
		events, ended := followed(t, p, "")
		want := []struct {
			text   string
			latest time.Duration
		}{
			{"one", 0}, {`two <3`, 0}, {"three", 3600 * time.Millisecond},
			{"last words", 6100 * time.Millisecond},
		}
		if len(events) != len(want) {
			t.Fatalf("%d events: %v", len(events), events)
		}
		for i, w := range want {
			if !strings.Contains(events[i].data, w.text) || events[i].after > w.latest {
				t.Errorf("event %d: %+v, want %q by %v", i, events[i], w.text, w.latest)
			}
		}
		if ended < 5600*time.Millisecond || ended > 7*time.Second {
			t.Errorf("ended after %v", ended)
		}
		for i, e := range events {
			// the browser's way, on the same address
			again, _ := followed(t, p, events[0].id, "Last-Event-ID: "+e.id+"\r\n")
			if len(again) != len(events)-i-1 || len(again) > 0 &&
				again[0].data != events[i+1].data {
				t.Errorf("behind event %d: %v", i, again)
			}
		}
	})
}

func TestQuietStreamShowsThatItLives(t *testing.T) {
	f := newFake()
	f.lines = nil
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		time.AfterFunc(40*time.Second, func() { f.finish(3) })
		events, ended := followed(t, p, "")
		if len(events) != 2 || events[0].data != "comment" || ended < 40*time.Second {
			t.Errorf("%v, ended after %v", events, ended)
		}
	})
}

func TestShutdownEndsFollowedLogs(t *testing.T) {
	f := newFake()
	serve(t, f, func(t *testing.T, server *http.Server, p *pipes) {
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() {
			time.Sleep(10 * time.Second)
			if err := server.Shutdown(context.Background()); err != nil {
				t.Errorf("shut down: %v", err)
			}
		})
		if _, ended := followed(t, p, ""); ended < 10*time.Second || ended > 11*time.Second {
			t.Errorf("ended after %v", ended)
		}
	})
}

// dropping is a log of which lines were dropped: in their place stands one that says so.
type dropping struct {
	*fake
	first, dropped int64
}

func (d dropping) Lines(
	_ context.Context, _ task.ID, from int64, limit int,
) (page store.LogPage, err error) {
	page.Next = from
	for int64(len(page.Lines)) < int64(limit) && page.Next < 60 {
		text, next := fmt.Sprint("line ", page.Next), page.Next+1
		if page.Next >= d.first && page.Next < d.first+d.dropped {
			text, next = "gap", d.first+d.dropped
		}
		page.Lines = append(page.Lines, task.LogLine{Time: moment, Text: text})
		page.Next = next
	}
	return page, nil
}

func TestEveryEventTellsWhereToGoOnAlsoAroundAGap(t *testing.T) {
	for _, gap := range []struct{ first, dropped int64 }{
		{0, 1}, {0, 7}, {13, 1}, {13, 2}, {13, 40}, {59, 1}, {60, 5},
	} {
		f := newFake()
		f.finish(3)
		e := dropping{f, gap.first, gap.dropped}
		serve(t, e, func(t *testing.T, _ *http.Server, p *pipes) {
			events, took := followed(t, p, "")
			for i, event := range events {
				from, err := parseLineCursor("id", event.id)
				if err != nil {
					t.Fatalf("gap %v: event %d: id %q: %v", gap, i, event.id, err)
				}
				page, err := e.Lines(t.Context(), idOf(3), from, 1)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case i == len(events)-1:
					if len(page.Lines) != 0 {
						t.Errorf("gap %v: behind the last event stands %v", gap, page.Lines)
					}
				case len(page.Lines) != 1 ||
					!strings.Contains(events[i+1].data, fmt.Sprintf("%q", page.Lines[0].Text)):
					t.Errorf("gap %v: behind event %d stands %v, streamed was %s", gap, i,
						page.Lines, events[i+1].data)
				}
			}
			if want := 60 - int(min(gap.dropped, 60-gap.first)) + 1; gap.first < 60 &&
				len(events) != want || took > time.Second {
				t.Errorf("gap %v: %d events in %v", gap, len(events), took)
			}
		})
	}
}

func TestOneCallerLeavesStreamsToOthers(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) {
		tokens, err := ParseTokens(
			strings.NewReader("ann viewer a-token\nbob viewer b-token\nann admin c-token\n"),
		)
		if c.Tokens = tokens; err != nil {
			t.Fatal(err)
		}
	})
	open := func(token, target string) (status int, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", target, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := begun{httptest.NewRecorder(), make(chan int, 1)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.Handler().ServeHTTP(w, r)
		}()
		return <-w.status, func() { cancel(); <-done }
	}
	const events = "/v1/events/stream"
	log3 := "/v1/tasks/" + idOf(3).String() + "/logs?follow=true"
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for i := range maxFollowsEach + 1 {
		status, end := open("a-token", []string{events, log3}[i%2])
		ends = append(ends, end)
		if want := map[bool]int{true: 200, false: 503}[i < maxFollowsEach]; status != want {
			t.Fatalf("stream %d of one caller: %d, want %d", i, status, want)
		}
	}
	for _, token := range []string{"b-token", "c-token"} {
		status, end := open(token, events)
		if ends = append(ends, end); status != 200 {
			t.Errorf("another caller: %d", status)
		}
	}
	ends[0]()
	status, end := open("a-token", events)
	if ends = append(ends, end); status != 200 {
		t.Errorf("after one of its streams has ended: %d", status)
	}
}

// begun is a response whose status is told as soon as it is known.
type begun struct {
	*httptest.ResponseRecorder
	status chan int
}

func (b begun) WriteHeader(status int) {
	b.ResponseRecorder.WriteHeader(status)
	b.status <- status
}

func TestOnlySoManyStreamsAreOpenAtATime(t *testing.T) {
	f := newFake()
	serve(t, f, func(t *testing.T, server *http.Server, p *pipes) {
		target := fmt.Sprintf(
			"GET /v1/tasks/%v/logs?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n", idOf(3),
		)
		var conns []net.Conn
		for i := range maxFollowsEach + 1 {
			// without tokens who comes from one address is one caller
			c := p.dial()
			conns = append(conns, c)
			response, err := open(c, target)
			if err != nil ||
				response.StatusCode != map[bool]int{true: 200, false: 503}[i < maxFollowsEach] {
				t.Fatalf("follower %d: %v, %v", i, response, err)
			}
		}
		conns[0].Close()
		time.Sleep(time.Second)
		again := p.dial()
		conns = append(conns, again)
		if response, err := open(again, target); err != nil || response.StatusCode != 200 {
			t.Errorf("after one left: %v, %v", response, err)
		}
		for _, c := range conns {
			c.Close()
		}
	})
	var all follows
	all.limit, all.limitEach = maxFollows, maxFollowsEach
	for i := range maxFollows + 1 {
		if err := all.begin(strconv.Itoa(i)); (err == nil) != (i < maxFollows) {
			t.Fatalf("stream %d of all callers: %v", i, err)
		}
	}
}

func TestLongLogIsStreamedInOrder(t *testing.T) {
	f := newFake()
	f.lines = nil
	for i := range 350 {
		f.add(fmt.Sprintf("line %d.", i))
	}
	f.finish(3)
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		events, _ := followed(t, p, "")
		if len(events) != 350 {
			t.Fatalf("%d events", len(events))
		}
		for i, e := range events {
			if !strings.Contains(e.data, fmt.Sprintf("line %d.", i)) || e.after != 0 {
				// nothing is waited for while there is more
				t.Errorf("event %d after %v: %s", i, e.after, e.data)
			}
		}
	})
}
