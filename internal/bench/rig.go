package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/child"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

const (
	Queue       = "bench"
	Lanes       = 64
	connections = 8     // submitters at a time
	outstanding = 8_000 // tasks submitted and not yet handled
	warmup      = time.Second
)

// rig is what one run of a benchmark stands on: a folder, and the processes it started.
type rig struct {
	*Config
	folder   string
	title    string
	progress *term.Progress

	database *database // nil = a file
	server   *child.Process
	other    *child.Process // a second node
	url      string
	worker   *child.Process
	handled  atomic.Int64 // by the worker, a few milliseconds old
	waits    []time.Duration
}

func (r *rig) note(what string) { r.progress.Note(r.title + ": " + what) }

// store is where the run's tasks are: in its folder, or in its schema.
func (r *rig) store() string {
	if r.database != nil {
		return r.database.store()
	}
	return "sqlite:" + filepath.Join(r.folder, "bench.db")
}

// serve starts a server on the run's store.
func (r *rig) serve(ctx context.Context) (err error) {
	r.server, r.url, err = child.StartServer(ctx, r.store(), "warn", "--name", "bench")
	return err
}

// serveToo starts a second node on it, if others can share it, and answers where a worker is to go
// that is not to be the first one's.
func (r *rig) serveToo(ctx context.Context) (url string, err error) {
	if r.database == nil {
		return r.url, nil
	}
	r.other, url, err = child.StartServer(ctx, r.store(), "warn", "--name", "bench-2")
	return url, err
}

// work starts a worker process with lanes that do nothing.
func (r *rig) work(ctx context.Context, url string, args ...string) error {
	args = append([]string{"bench", "worker", "--server", url, "--queue", Queue, "--capacity",
		fmt.Sprint(Lanes), fmt.Sprintf("--stream=%t", r.Stream)}, args...)
	worker, err := child.Start(ctx, r.hear, args...)
	r.worker = worker
	return err
}

// hear reads a line of the worker: "handled N", or "waited NANOSECONDS".
func (r *rig) hear(line string) {
	word, value, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
	case word == "handled":
		r.handled.Store(n)
	case word == "waited":
		r.waits = append(r.waits, time.Duration(n))
	}
}

// stopWorker ends the worker; what it heard is complete then.
func (r *rig) stopWorker() error {
	if r.worker == nil {
		return nil
	}
	worker := r.worker
	r.worker = nil
	return errors.Join(child.IgnoreDone(child.End(worker.Process)), worker.Wait())
}

// stop ends what still runs. Errors don't matter any more: either the run was good, or it has an
// error of its own.
func (r *rig) stop() {
	_ = r.stopWorker()
	for _, server := range []*child.Process{r.server, r.other} {
		if server != nil {
			_ = child.End(server.Process)
			_ = server.Wait()
		}
	}
	r.server, r.other = nil, nil
}

// connect makes a client of its own connections.
func (r *rig) connect() (*client.Client, error) {
	return client.New(client.Config{Servers: []string{r.url}, HTTPOnly: !r.Stream})
}

// counts are the queue's counts.
func (r *rig) counts(ctx context.Context, c *client.Client) (task.Counts, error) {
	q, err := c.Queue(ctx, Queue)
	return q.Counts, err
}

// settle waits until nothing is left to do, and makes sure that exactly the submitted tasks were
// done.
func settle(
	ctx context.Context, submitted int64, counts func(context.Context) (task.Counts, error),
) error {
	for last, since := int64(-1), time.Now(); ; {
		n, err := counts(ctx)
		if err != nil {
			return err
		}
		switch left := n.Waiting + n.Ready + n.Running; {
		case left == 0 && n.Done == submitted && n.Dead+n.Cancelled == 0:
			return nil
		case left == 0 && n.Done != submitted, n.Dead+n.Cancelled > 0:
			return fmt.Errorf("%d tasks were submitted, but counted are %+v", submitted, n)
		case n.Done != last:
			last, since = n.Done, time.Now()
		case time.Since(since) > time.Minute:
			return fmt.Errorf(
				"nothing was done for a minute: %d tasks were submitted, counted are %+v",
				submitted, n,
			)
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// processes are this process, the children that run, and the database's.
func (r *rig) processes() []int32 {
	pids := []int32{int32(os.Getpid())}
	for _, c := range []*child.Process{r.server, r.other, r.worker} {
		if c != nil {
			pids = append(pids, int32(c.Process.Pid))
		}
	}
	if r.database != nil {
		pids = append(pids, r.database.processes()...)
	}
	return pids
}
