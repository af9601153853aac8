package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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

// followed reads a stream to its end.
func followed(t *testing.T, p *pipes, cursor string) (events []received, ended time.Duration) {
	t.Helper()
	c := p.dial()
	defer c.Close()
	start := time.Now()
	target := fmt.Sprintf("/v1/tasks/%v/logs?follow=true", idOf(3))
	if cursor != "" {
		target += "&cursor=" + cursor
	}
	go fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target)
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
		}{{"one", 0}, {`two <3`, 0}, {"three", 3600 * time.Millisecond}, {"last words", 6100 * time.Millisecond}}
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
		again, _ := followed(t, p, events[2].id)
		if len(again) != 1 || !strings.Contains(again[0].data, "last words") {
			t.Errorf("behind the third event: %v", again)
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
			if !strings.Contains(e.data, fmt.Sprintf("line %d.", i)) || e.after != 0 { // nothing is waited for while there is more
				t.Errorf("event %d after %v: %s", i, e.after, e.data)
			}
		}
	})
}
