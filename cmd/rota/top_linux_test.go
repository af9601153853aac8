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
