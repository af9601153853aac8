package main

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/ptytest"
	"github.com/rotahq/rota/task"
)

// The real program on a terminal: live, through the death of its server, put aside and taken up
// again, until it quits and leaves the terminal as it was.
func TestTopShowsAClusterLiveAndOutlastsItsServer(t *testing.T) {
	s := newVictim(t)
	s.start()
	c := s.connect()
	awaitReady(t, c)
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "first"}); err != nil {
		t.Fatal(err)
	}
	p := ptytest.New(t, 100, 30)
	top := startTop(t, s, p)
	at := p.Await(0, "first")
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "second"}); err != nil {
		t.Fatal(err)
	}
	at = p.Await(at, "second")
	s.kill()
	at = p.Await(at, "no news for")
	s.start()
	awaitReady(t, c)
	at = p.Await(at, "live")
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "third"}); err != nil {
		t.Fatal(err)
	}
	at = p.Await(at, "third")
	// put aside; nobody is there who could let it go on, so it goes on at once
	p.Press("\x1a")
	at = p.Await(at, ansi.ResetModeAltScreenSaveCursor)
	at = p.Await(at, ansi.SetModeAltScreenSaveCursor)
	p.Press("p") // the oldest stands first
	at = p.Await(at, "pause queue first? y/n")
	p.Press("y")
	p.Await(at, "pause first: done")
	if q, err := c.Queue(t.Context(), "first"); err != nil || !q.Paused {
		t.Errorf("it is paused: %v (%v)", q.Paused, err)
	}
	p.Press("\x03")
	if err := top.Wait(); err != nil || p.Raw() {
		t.Errorf("ended with %v, raw: %v", err, p.Raw())
	}
}

// startTop runs the view of a server on a terminal.
func startTop(t *testing.T, s *victim, p *ptytest.Terminal) *exec.Cmd {
	t.Helper()
	top := exec.Command(s.binary, "top", "--server", s.url)
	top.Stdin, top.Stdout, top.Stderr = p.File, p.File, p.File
	top.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if top.ProcessState == nil {
			_ = top.Process.Kill()
			_ = top.Wait()
		}
	})
	return top
}

func TestTopPausesAndResumesAGroupKey(t *testing.T) {
	s := newVictim(t)
	s.start()
	c := s.connect()
	awaitReady(t, c)
	if _, err := c.Submit(t.Context(),
		task.Submission{Queue: "mail", GroupKey: "a/b"},
		task.Submission{Queue: "mail", GroupKey: "a/b"},
		task.Submission{Queue: "mail", GroupKey: ".."},
	); err != nil {
		t.Fatal(err)
	}
	paused := func() string {
		keys, err := c.Keys(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, k := range keys.Items {
			if k.Paused {
				text += k.Key + " "
			}
		}
		return text
	}
	p := ptytest.New(t, 80, 24)
	top := startTop(t, s, p)
	at := p.Await(p.Await(0, "mail"), "K keys")
	p.Press("K")
	at = p.Await(at, "does not go by group keys")
	fair := true
	if _, err := c.PutQueue(t.Context(), "mail", client.QueueChange{Fair: &fair}); err != nil {
		t.Fatal(err)
	}
	p.Press("\x1b")
	at = p.Await(at, "t tasks")
	p.Press("\x1b[BK") // keys are read again when they are old: ten seconds at most
	at = p.Await(p.Await(at, "group keys of queue mail, 2 keys"), "esc back")
	p.Press("\x1b[Bp")
	at = p.Await(at, "pause group key .. of queue mail? y/n")
	p.Press("y")
	at = p.Await(p.Await(at, "pause ..: done"), "until it is resumed")
	if got := paused(); got != ".. " {
		t.Errorf("paused are %q", got)
	}
	p.Press("P")
	at = p.Await(at, "resume group key .. of queue mail? y/n")
	p.Press("y")
	at = p.Await(at, "resume ..: done")
	p.Press("\x1b[Ap")
	at = p.Await(at, "pause group key a/b of queue mail? y/n")
	p.Press("y")
	p.Await(at, "pause a/b: done")
	if got := paused(); got != "a/b " {
		t.Errorf("paused are %q", got)
	}
	p.Press("q")
	if err := top.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// awaitReady waits for a server that was started.
func awaitReady(t *testing.T, c *client.Client) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if r, err := c.Ready(t.Context()); err == nil && r.Ready {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not become ready")
		}
	}
}
