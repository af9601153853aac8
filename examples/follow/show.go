package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

const (
	replicas = 2
	patience = time.Minute // for what should come within seconds
)

// show is one run of the example.
type show struct {
	out     io.Writer
	folder  string
	files   int
	workers int

	began  time.Time
	client *client.Client
}

func (s *show) ledgerPath() string { return filepath.Join(s.folder, "ledger.db") }

func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.out, "%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// run starts everything, kills a worker, waits until all is well again, and holds the ledger
// against the files.
func (s *show) run(ctx context.Context) (err error) {
	s.began = time.Now()
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + filepath.Join(s.folder, "rota.db"), Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler), // what it shows is printed
	})
	if err != nil {
		return err
	}
	serving, stopNode := context.WithCancel(context.WithoutCancel(ctx)) // the node goes last
	var running sync.WaitGroup
	var failed error
	running.Go(func() { failed = node.Run(serving) })
	defer func() {
		stopNode()
		running.Wait()
		err = errors.Join(err, failed)
	}()
	server := "http://" + node.Addr()
	if s.client, err = client.New(client.Config{Servers: []string{server}}); err != nil {
		return err
	}
	defer s.client.Close()

	crew, err := s.hire(server)
	defer func() {
		for _, p := range crew {
			err = errors.Join(err, p.end())
		}
	}()
	if err != nil {
		return err
	}
	growing, stopGrowing := context.WithCancel(ctx)
	var writers sync.WaitGroup
	defer func() { stopGrowing(); writers.Wait() }()
	var names []string
	for i := range s.files {
		names = append(names, fmt.Sprintf("app-%d.log", i))
		writers.Go(func() { s.grow(growing, names[i]) })
	}
	if err := s.assign(ctx, names); err != nil {
		return err
	}
	rest(ctx, 3*time.Second)

	victim := slices.Sorted(maps.Keys(crew))[0]
	if err := crew[victim].Process.Kill(); err != nil {
		return err
	}
	_ = crew[victim].Wait() // it says that it was killed
	delete(crew, victim)
	s.say("%s is killed with -9; its files are followed by their other replicas", victim)
	if err := s.watch(ctx, victim, int64(len(names)*replicas)); err != nil {
		return err
	}
	stopGrowing()
	writers.Wait()
	return s.audit(ctx, names)
}

// hire starts the workers, each with room for so much that any one of them can be missed.
func (s *show) hire(server string) (crew map[string]process, err error) {
	capacity := (s.files*replicas + s.workers - 2) / (s.workers - 1)
	crew = map[string]process{}
	for i := range s.workers {
		name := fmt.Sprintf("w%d", i+1)
		p, err := s.startWorker(name, server, capacity)
		if err != nil {
			return crew, fmt.Errorf("start %s: %w", name, err)
		}
		crew[name] = p
	}
	s.say("%d files grow; %d workers follow up to %d each; every file is followed by %d of them",
		s.files, s.workers, capacity, replicas)
	return crew, nil
}

// grow writes lines to a file until ctx ends: in bursts, and with a line's beginning and end apart,
// as programs do.
func (s *show) grow(ctx context.Context, name string) {
	file, err := os.Create(filepath.Join(s.folder, name))
	if err != nil {
		s.say("%s does not grow: %v", name, err)
		return
	}
	defer file.Close()
	for n := 0; ctx.Err() == nil; n++ {
		burst := strings.Repeat(fmt.Sprintf("%s line of burst %d\n",
			time.Now().Format(time.RFC3339Nano), n), rand.IntN(20))
		fmt.Fprint(file, burst, "and one that comes ")
		rest(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
		fmt.Fprintln(file, "in two parts")
	}
}

// assign makes the group and its jobs, and waits until all their replicas run.
func (s *show) assign(ctx context.Context, names []string) error {
	each := replicas
	if _, err := s.client.PutGroup(ctx, group, client.GroupChange{Replicas: &each}); err != nil {
		return err
	}
	jobs := make([]task.Job, len(names))
	for i, name := range names {
		jobs[i] = task.Job{Name: name, Load: task.Unit}
	}
	if _, err := s.client.PutJobs(ctx, group, jobs...); err != nil {
		return err
	}
	return s.until(ctx, "all replicas run", func() (bool, error) {
		shares, err := s.running(ctx)
		if err != nil || total(shares) < int64(len(names)*replicas) {
			return false, err
		}
		s.say("all %d replicas run: %s", len(names)*replicas, textOf(shares))
		return true, nil
	})
}

// watch waits until the replicas of a dead worker run elsewhere; meanwhile counting goes on.
func (s *show) watch(ctx context.Context, dead string, wanted int64) error {
	book, err := openLedger(s.ledgerPath())
	if err != nil {
		return err
	}
	defer book.close()
	told := time.Now()
	return s.until(ctx, "the killed worker's files are followed by two again",
		func() (bool, error) {
			shares, err := s.running(ctx)
			if err != nil {
				return false, err
			}
			delete(shares, dead)
			if total(shares) == wanted {
				s.say("all %d replicas run again: %s", wanted, textOf(shares))
				return true, nil
			}
			if time.Since(told) >= 5*time.Second {
				told = time.Now()
				counts, err := book.counts(linesByFile)
				if err != nil {
					return false, err
				}
				written, err := s.written(slices.Sorted(maps.Keys(counts)))
				if err != nil {
					return false, err
				}
				s.say("meanwhile %d lines were written; %d of them are not counted yet",
					total(written),
					total(written)-total(counts))
			}
			return false, nil
		})
}

// running counts the replicas that run, by worker.
func (s *show) running(ctx context.Context) (map[string]int64, error) {
	shares := map[string]int64{}
	for p, err := range client.All(func(cursor string) ([]client.Placement, string, error) {
		runs := client.PlacementFilter{State: task.JobRunning}
		return s.client.Assignments(ctx, group, runs, cursor, 1000)
	}) {
		if err != nil {
			return nil, err
		}
		shares[p.Worker]++
	}
	return shares, nil
}

// audit waits until everything is counted and holds each file's count against its lines.
func (s *show) audit(ctx context.Context, names []string) error {
	written, err := s.written(names)
	if err != nil {
		return err
	}
	s.say("the files grow no more: wc -l says %d lines", total(written))
	book, err := openLedger(s.ledgerPath())
	if err != nil {
		return err
	}
	defer book.close()
	var counted map[string]int64
	err = s.until(ctx, "everything is counted", func() (bool, error) {
		counted, err = book.counts(linesByFile)
		return total(counted) >= total(written), err
	})
	if err != nil {
		return err
	}
	rest(ctx, time.Second) // what counts a line twice would do it now
	if counted, err = book.counts(linesByFile); err != nil {
		return err
	}
	shares, err := book.counts(linesByWorker)
	if err != nil {
		return err
	}
	s.say("the ledger says %d lines: %s", total(counted), textOf(shares))
	if !maps.Equal(counted, written) {
		return fmt.Errorf("by file the ledger says %s, wc -l says %s", textOf(counted),
			textOf(written))
	}
	s.say("every line was counted once")
	return nil
}

// written counts the lines of the files, as wc -l does.
func (s *show) written(names []string) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(s.folder, name))
		if err != nil {
			return nil, err
		}
		counts[name] = int64(bytes.Count(text, []byte{'\n'}))
	}
	return counts, nil
}

// until asks again and again until it is told yes, but not for ever.
func (s *show) until(ctx context.Context, what string, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil {
		if ok, err := yes(); ok || err != nil {
			return err
		}
		rest(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("wait until %s: %w", what, ctx.Err())
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// textOf is a list of counts, as in "w1 4, w2 4".
func textOf(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
