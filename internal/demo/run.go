package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/child"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// workerProcess is a worker process.
type workerProcess struct {
	*child.Process
	name string
	line atomic.Pointer[told] // the last one that it printed
}

func (c *workerProcess) last() told { return *c.line.Load() }

// over tells whether the process has ended.
func (c *workerProcess) over() bool {
	select {
	case <-c.Heard:
		return true
	default:
		return false
	}
}

// serve starts the server on the temporary store and configures the queue.
func (d *demonstration) serve(ctx context.Context) (err error) {
	if d.server, d.url, err = child.StartServer(ctx, "sqlite:"+d.store(), "error"); err != nil {
		return err
	}
	if d.client, err = client.New(client.Config{Servers: []string{d.url}}); err != nil {
		return err
	}
	d.say("The console is at %s/", d.url)
	silence := silence
	if _, err = d.client.PutQueue(ctx, queue, client.QueueChange{Silence: &silence}); err != nil {
		return err
	}
	return d.arrange(ctx)
}

// join starts one more worker.
func (d *demonstration) join(ctx context.Context, more ...string) error {
	c := &workerProcess{name: fmt.Sprintf("demo-%d", len(d.crew)+1)}
	c.line.Store(new(told))
	args := append([]string{"demo-worker", "--server", d.url, "--name", c.name}, more...)
	process, err := child.Start(ctx, func(line string) {
		if t := new(told); json.Unmarshal([]byte(line), t) == nil {
			c.line.Store(t)
		}
	}, args...)
	if err != nil {
		return err
	}
	c.Process = process
	d.crew = append(d.crew, c)
	d.say("worker %s is process %d", c.name, c.Cmd.Process.Pid)
	return nil
}

// alive counts the workers whose processes run.
func (d *demonstration) alive() (n int) {
	for _, c := range d.crew {
		if !c.over() {
			n++
		}
	}
	return n
}

// work submits a task for each file and sees to it that all become final, one worker killed on the
// way.
func (d *demonstration) work(ctx context.Context) (w *walker, took time.Duration, err error) {
	ledger, err := os.Create(d.ledger())
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	own, err := os.Stat(d.folder)
	if err != nil {
		return nil, 0, err
	}
	began := d.Now()
	if d.expected, err = countRegular(ctx, d.root, own, d.files); err != nil {
		return nil, 0, err
	}
	w = &walker{
		root: d.root, avoid: own, submit: d.client.Submit, ledger: json.NewEncoder(ledger),
		most: d.files, first: untilKill(d.expected), resume: make(chan struct{}),
	}
	walking, stop := context.WithCancel(ctx)
	walked := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { walked <- w.walk(walking) })
	err = d.supervise(ctx, w, walked)
	stop()
	wg.Wait()
	if err == nil {
		err = d.linger(ctx, began)
	}
	return w, d.Now().Sub(began), err
}

// untilKill is how many of the files are submitted before the kill: a third, which are done by
// then, and the one that the killed worker holds.
func untilKill(files int64) int64 { return min(files, files/3+1) }

// supervise looks ten times a second how things stand. The first worker begins alone and holds on
// to its first task: so whenever it is killed, it takes a task away, however few there are, and the
// job. The others join it once it has both. The walk waits for the kill when it has submitted a
// third: however fast the workers are, they can't do more before.
func (d *demonstration) supervise(ctx context.Context, w *walker, walked <-chan error) error {
	if err := d.join(ctx, "--hesitate"); err != nil {
		return err
	}
	var last task.Counts
	complete, since := false, d.Now()
	for {
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		select {
		case err := <-walked:
			if err != nil {
				return d.blame(err)
			}
			complete = true
		default:
		}
		q, err := d.client.Queue(ctx, queue)
		if err := d.blame(err); err != nil {
			return err
		}
		settled := complete || w.holding.Load() // nothing more is submitted before the kill
		n, total := q.Counts, w.submitted.Load()
		d.show(n.Done, max(total, d.expected), "done")
		if n != last {
			last, since = n, d.Now()
		}
		switch final := n.Done + n.Dead + n.Cancelled; {
		case complete && final >= total:
			return nil
		case n.Running == 0 && d.Now().Sub(since) > time.Minute:
			return fmt.Errorf(
				"nothing was done for a minute: %d tasks were submitted, counted are %+v", total, n,
			)
		case d.killed == nil && d.crew[0].last().Hesitates:
			runs, err := d.lookAtClock(ctx)
			if err := d.blame(err); err != nil {
				return err
			}
			if !runs && d.Now().Sub(since) < clockWithin && len(d.crew) == 1 {
				continue
			}
			if err := d.gather(ctx); err != nil {
				return err
			}
			if d.hesitant.IsZero() {
				d.hesitant = d.Now()
			}
			// Two beats later it has been told how often its queue wants to hear of it, so its
			// silence is noticed as fast.
			heard := d.Now().Sub(d.hesitant) >= silence/3
			if heard && settled && final+1 >= total {
				if err := d.kill(ctx, d.crew[0], n.Done); err != nil {
					return err
				}
				close(w.resume)
			}
		}
	}
}

// gather lets the other workers join.
func (d *demonstration) gather(ctx context.Context) error {
	for len(d.crew) < d.workers {
		if err := d.join(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill kills a worker as a power cut would, and lets another one take its place.
func (d *demonstration) kill(ctx context.Context, c *workerProcess, done int64) error {
	v, err := d.client.Worker(ctx, c.name)
	if err := d.blame(err); err != nil {
		return err
	}
	if err := c.Cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill worker %s: %w", c.name, err)
	}
	_ = c.Wait() // it says that it was killed
	d.killed, d.doneAtKill = c, done
	d.say("worker %s killed (SIGKILL) while it held %d of the tasks and %s of %s files were done",
		c.name, v.Running, term.Count(done), term.Count(d.expected))
	return d.join(ctx)
}

// blame is err, or what is behind it: a process that ended though nobody asked it to.
func (d *demonstration) blame(err error) error {
	select {
	case <-d.server.Heard:
		return fmt.Errorf("the server ended: %w", d.server.Wait())
	default:
	}
	for _, c := range d.crew {
		if c != d.killed && c.over() {
			return fmt.Errorf("worker %s ended: %w", c.name, c.Wait())
		}
	}
	return err
}

// check reads every file directly.
func (d *demonstration) check(ctx context.Context, total int64) (*totals, error) {
	d.progress = d.Progress()
	view := func(ctx context.Context, id task.ID) (task.View, error) {
		return d.client.Task(ctx, id, 0)
	}
	return check(ctx, d.ledger(), view, func(n int64) { d.show(n, total, "checked") })
}

// stop ends what still runs, the server last. Errors don't matter any more: either the run was
// good, or it has an error of its own.
func (d *demonstration) stop() {
	for _, c := range d.crew {
		_ = child.End(c.Cmd.Process)
	}
	for _, c := range d.crew {
		_ = c.Wait()
	}
	if d.client != nil {
		// a connection that was opened and never used would hold the server up for seconds
		d.client.Close()
	}
	if d.server != nil {
		_ = child.End(d.server.Process)
		_ = d.server.Wait()
	}
}
