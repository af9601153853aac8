package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/task"
)

// The connection of a stream is dead, as when a firewall has forgotten it, and nobody says so: the
// call after the first that was not answered goes another way, so that a worker is heard before it
// must stop itself. When something is heard on the stream after all, it is used again.
func TestCallGoesAnotherWayWhenNothingIsHeardOnTheStream(t *testing.T) {
	var calls atomic.Int64
	var dead atomic.Bool
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if !dead.Load() {
			sound(c, id, kind, body)
		}
	}
	beat := func(c *Client) error {
		ctx, cancel := context.WithTimeout(context.Background(), 4500*time.Millisecond)
		defer cancel()
		_, err := c.Beat(ctx, task.Beat{Worker: "w"})
		return err
	}
	bubble(t, f, func(t *testing.T, c *Client) {
		dead.Store(true)
		if err := beat(c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a beat that nobody answers ended with %v", err)
		}
		before := calls.Load()
		if err := beat(c); err != nil || calls.Load() != before+1 {
			t.Errorf("the next one: %v, %d calls over HTTP", err, calls.Load()-before)
		}
		dead.Store(false)
		time.Sleep(2 * lineLook) // the server is asked for a sign, and gives one
		before = calls.Load()
		if err := beat(c); err != nil || calls.Load() != before || f.opened.Load() != 1 {
			t.Errorf("when it is back: %v, %d calls over HTTP, %d streams", err,
				calls.Load()-before, f.opened.Load())
		}
		dead.Store(true)
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var parked sync.WaitGroup
		parked.Go(func() {
			_, err := c.Hold(ctx, task.HoldRequest{Worker: "w", Wait: 30 * time.Second})
			// so soon, and not when the stream was quiet for so long
			limit := 5*time.Second + lineSign + 3*lineLook
			if took := time.Since(began); !errors.Is(err, errSilent) || took > limit {
				t.Errorf("a hold ended after %v with %v", took, err)
			}
		})
		synctest.Wait()
		if err := beat(c); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		parked.Wait()
	})
}

// slow is a connection that takes its time to close, as TLS does when nobody reads what it says
// last.
type slow struct {
	net.Conn
	closes, over chan struct{}
}

func (c slow) Close() error {
	c.closes <- struct{}{}
	<-c.over
	return c.Conn.Close()
}

// Calls under way when a stream ends do not wait until its connection is closed.
func TestCallsDoNotWaitForTheCloseOfTheirStream(t *testing.T) {
	var calls atomic.Int64
	arrived := make(chan struct{}, 1)
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if kind == frame.Hold {
			arrived <- struct{}{} // and is not answered
			return
		}
		sound(c, id, kind, body)
	}
	s := httptest.NewServer(f)
	defer s.Close()
	closes, over := make(chan struct{}, 10), make(chan struct{})
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return slow{c, closes, over}, err
	}
	c := streaming(t, Config{
		Servers: []string{s.URL}, Attempts: 1,
		HTTP: &http.Client{Transport: &http.Transport{DialContext: dial}},
	})
	stands(t, c, &calls)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Hold(t.Context(), task.HoldRequest{Worker: "w", Wait: time.Minute})
		ended <- err
	}()
	<-arrived // all of it is sent, so that it ends with what the line ends with
	c.lines.mu.Lock()
	l := c.lines.by[s.URL].line
	c.lines.mu.Unlock()
	l.fail(errSilent)
	<-closes // it has begun to
	select {
	case err := <-ended:
		if !errors.Is(err, errSilent) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call waits for the close")
	}
	close(over)
}

// A server reads no further while so many calls are under way: those that were given up count until
// it is told so, or it might not read that they were, nor anything else.
func TestCallsThatAreGivenUpKeepTheirRoomUntilTheServerIsTold(t *testing.T) {
	l := &line{quit: make(chan struct{}), calls: map[uint32]*waiting{}}
	for range frame.MaxCalls - 2 {
		l.begin(&waiting{}, frame.MaxCalls-1)
	}
	l.leaving = 1
	if _, under := l.begin(&waiting{}, frame.MaxCalls-1); under != 0 {
		t.Errorf("a call begins as the %dth", under)
	}
	l.leaving = 0
	if _, under := l.begin(&waiting{}, frame.MaxCalls-1); under != frame.MaxCalls-1 {
		t.Errorf("the next one begins as the %dth", under)
	}
}

// A line that nobody uses ends, or a call begins on it; not both.
func TestNoCallBeginsOnALineThatEnds(t *testing.T) {
	for range 3000 {
		l := &line{quit: make(chan struct{}), calls: map[uint32]*waiting{}}
		var group sync.WaitGroup
		var under, began int
		group.Go(func() { _, began = l.begin(&waiting{}, frame.MaxCalls) })
		group.Go(func() { under = l.endUnused(time.Now().Add(time.Hour)) })
		group.Wait()
		if ended := l.err != nil; ended == (began > 0) && under == 0 {
			t.Fatalf("it has %d calls under way, and ended: %v", began, ended)
		}
	}
}
