package top

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/internal/ptytest"
	"github.com/rotahq/rota/view"
)

// cluster is a Source of its own.
type cluster struct {
	mu  sync.Mutex
	did []Action
	err error // of following
}

func (c *cluster) Follow(ctx context.Context) iter.Seq2[view.Overview, error] {
	return func(yield func(view.Overview, error) bool) {
		if c.err != nil {
			yield(view.Overview{}, c.err)
			return
		}
		if yield(stand(1).Overview, nil) {
			<-ctx.Done()
		}
	}
}

func (c *cluster) List(_ context.Context, q Query) (List, error) {
	if q.Screen != Tasks {
		return List{Heads: []string{"A"}}, nil
	}
	return deadTasks().List, nil
}

func (c *cluster) Open(_ context.Context, t Thing, width int) (string, error) {
	return fmt.Sprintf("all of %s in %d", t.ID, width), nil
}

func (c *cluster) Act(_ context.Context, a Action) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, a)
	return "", nil
}

// running shows a cluster on a terminal.
func running(t *testing.T, c *cluster, p *ptytest.Terminal) (ended chan error, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{Source: c, In: p.File, Out: p.File, Now: time.Now})
	}()
	return ended, cancel
}

func TestTerminalShowsActsAndIsGivenBack(t *testing.T) {
	c, p := &cluster{}, ptytest.New(t, 80, 24)
	ended, stop := running(t, c, p)
	defer stop()
	at := p.Await(0, "订单")
	if !p.Raw() {
		t.Error("the terminal waits for whole lines")
	}
	p.Press("4")
	at = p.Await(at, "smtp.example.com")
	p.Press("\x1b[B")
	p.Press("\r")
	at = p.Await(at, "all of 1pq3v0m7d2k5g11 in 80")
	p.Press("\x1b") // nothing comes behind it
	at = p.Await(at, "s state")
	p.Press("r")
	at = p.Await(at, "retry task 1pq3v0m7d2k5g11? y/n")
	p.Press("y")
	p.Await(at, "retry 1pq3v0m7d2k5g11: done")
	p.Press("q")
	if err := <-ended; err != nil || p.Raw() {
		t.Errorf("ended with %v, raw: %v", err, p.Raw())
	}
	p.Await(at, ansi.ShowCursor+ansi.ResetModeAltScreenSaveCursor)
	want := []Action{{Retry, Thing{Screen: Tasks, ID: "1pq3v0m7d2k5g11"}}}
	if !slices.Equal(c.did, want) {
		t.Errorf("did %v, want %v", c.did, want)
	}
}

func TestTerminalIsDrawnAgainWhenItIsResized(t *testing.T) {
	c, p := &cluster{}, ptytest.New(t, 80, 24)
	ended, stop := running(t, c, p)
	at := p.Await(0, "[1 overview]\x1b[m 2 queues")
	p.Resize(120, 40)
	p.Await(at, "[1 overview]\x1b[m  2 queues")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A serial line, and a container's terminal at first, have no size that anybody knows.
func TestTerminalWithoutASizeIsDrawnOn(t *testing.T) {
	p := ptytest.New(t, 0, 0)
	ended, stop := running(t, &cluster{}, p)
	p.Await(0, "订单")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTerminalIsGivenBackWhateverHappens(t *testing.T) {
	gone := errors.New("no server")
	p := ptytest.New(t, 80, 24)
	ended, stop := running(t, &cluster{err: gone}, p)
	defer stop()
	if err := <-ended; !errors.Is(err, gone) || p.Raw() {
		t.Errorf("ended with %v, raw: %v", err, p.Raw())
	}
	// a panic beside the loop ends the process: what it does before is seen here
	l := &loop{Config: Config{In: p.File, Out: p.File}}
	if err := l.takeTerminal(); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { recover() }()
		l.guarded(func() { panic("a mistake of our own") })
	}()
	if p.Raw() {
		t.Error("after a panic the terminal is raw")
	}
}
