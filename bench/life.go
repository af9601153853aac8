package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	outstanding = 20_000 // tasks submitted and not yet handled beyond which callers pause
	stalled     = time.Minute
)

// load is how the tasks of a row come to a peer.
type load struct {
	callers int // that submit at the same time, each again when it is answered
	batch   int // tasks of one submission
	// that the callers share, of peers whose clients gather; 0 = each caller has its own, as if it
	// were a program
	clients int
	// linked is whether one process submits and works, which links the peer as a library
	linked bool
}

// measurement is what one run brought.
type measurement struct {
	tasks int64         // all of them were done in the end
	took  time.Duration // from the first submission until the last task was done
	used  [parts]time.Duration
}

// The parts of measurement.used: CPU time by process.
const (
	ofSubmitters = iota // this process
	ofServer            // rota serve or redis-server; River has none
	ofDatabase          // all processes of PostgreSQL, in rows that stand on it
	ofWorker
	parts
)

// measurePeer runs a peer: a server, a worker, and callers that submit for the given time, after a
// warm-up; or all of it in this process, where the peer is linked. Of several errors the first
// counts: what fails later, while all is ended, follows from it.
func measurePeer(
	ctx context.Context, name string, p peer, l load, g ground, warmup, d time.Duration,
) (m measurement, err error) {
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	keep := func(c *process) { // until the end; when it ends before, so does the measurement
		watch.Go(func() {
			select {
			case <-c.ended:
				abort(c.err)
			case <-ctx.Done():
			}
		})
	}
	s := stream{load: l}
	if g.database != nil {
		keep(g.database.cluster.process)
		s.pids[ofDatabase] = g.database.cluster.pid
	}
	s.pids[ofSubmitters] = os.Getpid()
	if l.linked {
		s.submitter, err = p.(library).open(ctx, g, l, func() { s.handled.Add(1) })
		if err != nil {
			return measurement{}, err
		}
		defer func() { err = cmp.Or(err, s.close()) }()
		return s.measure(ctx, g, warmup, d)
	}
	server, address, err := serve(ctx, p, g)
	if err != nil {
		return measurement{}, err
	}
	if server != nil {
		keep(server)
		defer func() { err = cmp.Or(err, server.end()) }()
		s.pids[ofServer] = server.pid
	}

	self, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	worker, err := spawn(s.hear, nil, self, workerVerb, name, address)
	if err != nil {
		return measurement{}, err
	}
	keep(worker)
	defer func() { err = cmp.Or(err, worker.end()) }()

	if s.submitter, err = p.connect(address, l); err != nil {
		return measurement{}, err
	}
	defer func() { err = cmp.Or(err, s.close()) }()
	s.pids[ofWorker] = worker.pid
	return s.measure(ctx, g, warmup, d)
}

// measure lets the tasks flow after a warm-up.
func (s *stream) measure(
	ctx context.Context, g ground, warmup, d time.Duration,
) (measurement, error) {
	if _, err := s.flow(ctx, warmup); err != nil {
		return measurement{}, fmt.Errorf("warm up: %w", err)
	}
	if g.database != nil {
		if err := g.database.tidy(ctx); err != nil {
			return measurement{}, err
		}
	}
	return s.flow(ctx, d)
}

// serve starts the peer's server, if it has one, and waits until it says where it listens.
func serve(ctx context.Context, p peer, g ground) (*process, string, error) {
	command, find, err := p.server(ctx, g)
	switch {
	case err != nil:
		return nil, "", err
	case len(command) == 0:
		return nil, g.database.url(), nil
	}
	found := make(chan string, 1)
	server, err := spawn(func(line string) {
		if address := find(line); address != "" {
			select {
			case found <- address:
			default: // the first one counts
			}
		}
	}, nil, command[0], command[1:]...)
	if err != nil {
		return nil, "", fmt.Errorf("start server: %w", err)
	}
	select {
	case address := <-found:
		return server, address, nil
	case <-server.ended:
		return nil, "", server.err
	case <-time.After(patience):
		return nil, "",
			errors.Join(fmt.Errorf("%s does not say where it listens", command[0]), server.end())
	case <-ctx.Done():
		return nil, "", errors.Join(context.Cause(ctx), server.end())
	}
}

// stream is tasks on their way: submitted here, handled by the worker, done in the server's books.
type stream struct {
	load
	submitter
	pids      [parts]int // whose CPU time counts; 0 = there is no such process
	submitted atomic.Int64
	handled   atomic.Int64 // a few milliseconds old
}

// hear reads a line of the worker.
func (s *stream) hear(line string) {
	var n int64
	if _, err := fmt.Sscan(line, &n); err == nil {
		s.handled.Store(n)
	}
}

// flow submits for d and waits until all is done.
func (s *stream) flow(ctx context.Context, d time.Duration) (measurement, error) {
	before, err := s.used()
	if err != nil {
		return measurement{}, err
	}
	first, began := s.submitted.Load(), time.Now()
	if err := s.submitAll(ctx, began.Add(d)); err != nil {
		return measurement{}, err
	}
	if err := s.drain(ctx); err != nil {
		return measurement{}, err
	}
	m := measurement{tasks: s.submitted.Load() - first, took: time.Since(began)}
	if m.used, err = s.used(); err != nil {
		return measurement{}, err
	}
	for i := range m.used {
		m.used[i] -= before[i]
	}
	return m, nil
}

// submitAll lets the callers submit until the given time. What was begun is finished, so that all
// of it counts.
func (s *stream) submitAll(ctx context.Context, until time.Time) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for caller := range s.callers {
		wg.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				if s.submitted.Load()-s.handled.Load() > outstanding {
					time.Sleep(time.Millisecond)
					continue
				}
				if err := s.submit(ctx, caller); err != nil {
					stop(fmt.Errorf("submit: %w", err))
					return
				}
				s.submitted.Add(int64(s.batch))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// drain waits until the server's books call exactly the submitted tasks done. They are asked when
// the worker has handled so many, since asking costs the server something.
func (s *stream) drain(ctx context.Context) error {
	submitted := s.submitted.Load()
	seen, since := int64(-1), time.Now()
	for {
		now := s.handled.Load()
		if now >= submitted {
			done, err := s.done(ctx)
			switch {
			case err != nil:
				return err
			case done == submitted:
				return nil
			case done > submitted:
				return fmt.Errorf("%d tasks were submitted, but %d are counted done", submitted,
					done)
			}
			now += done
		}
		if now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > stalled {
			return fmt.Errorf("nothing moved for %v: %d tasks were submitted, %d handled", stalled,
				submitted, s.handled.Load())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// used is the CPU time of each process so far.
func (s *stream) used() (used [parts]time.Duration, err error) {
	for i, pid := range s.pids {
		of := cpuTime
		if i == ofDatabase {
			of = familyTime
		}
		if pid == 0 {
			continue
		}
		if used[i], err = of(pid); err != nil {
			return used, err
		}
	}
	return used, nil
}
