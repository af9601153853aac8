package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// warmup is how long each run submits before it measures; short runs as long as they measure.
const warmup = time.Second

// config says what to run and for how long.
type config struct {
	seconds time.Duration // of submitting, in each run
	pairs   int           // of runs for each row: rota, then its peer
	only    string        // one row's name; "" = all
	rota    string        // binary; "" = it is built from the folder above this one
	// where the temporary folders are made: on the disk to measure; "" = the system's
	dir string
}

// validate names everything that is wrong.
func (c config) validate() error {
	var errs []error
	if c.seconds <= 0 || c.pairs < 1 {
		errs = append(errs, errors.New("--seconds must be positive, --pairs at least 1"))
	}
	known := c.only == ""
	for _, r := range rows() {
		known = known || r.name == c.only
	}
	if !known {
		errs = append(errs, fmt.Errorf("--only %q: no such row", c.only))
	}
	return errors.Join(errs...)
}

// row is one comparison.
type row struct {
	name, what string
	peer       string // beside rota
	postgres   bool   // both stand on one PostgreSQL
	rota       load
	other      load // of the peer
}

func rows() []row {
	return []row{
		{"batch", "rota with 100 tasks per submission, Asynq with its enqueue", "asynq", false,
			load{callers: 16, batch: 100}, load{callers: 32, batch: 1}},
		{"batch-always", "the same, and Redis syncs before it answers, as rota does",
			"asynq-always", false, load{callers: 16, batch: 100}, load{callers: 32, batch: 1}},
		{"lone", "lone submissions by 64 callers on both sides, as if each were a program", "asynq",
			false, load{callers: 64, batch: 1}, load{callers: 64, batch: 1}},
		{"lone-always", "the same, and Redis syncs before it answers, as rota does",
			"asynq-always", false, load{callers: 64, batch: 1}, load{callers: 64, batch: 1}},
		{"shared", "lone submissions by 64 callers of one program, which share a client", "asynq",
			false, load{callers: 64, batch: 1, clients: 1},
			load{callers: 64, batch: 1, clients: 1}},
		{"postgres", "100 tasks per submission on both sides, rota over HTTP, River in process",
			"river", true, load{callers: 16, batch: 100}, load{callers: 16, batch: 100}},
		{"postgres-library",
			"100 tasks per submission, one program that submits and works, both in process",
			"river", true, load{callers: 16, batch: 100, linked: true},
			load{callers: 16, batch: 100, linked: true}},
		{"postgres-lone",
			"lone submissions by 64 callers on both sides, rota over HTTP, River in process",
			"river", true, load{callers: 64, batch: 1}, load{callers: 64, batch: 1}},
	}
}

// rowNames are all of them, in a sentence.
func rowNames() string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// rows are those to run.
func (c config) rows() []row {
	return slices.DeleteFunc(rows(), func(r row) bool { return c.only != "" && c.only != r.name })
}

// compare makes all runs in turns: each pair's two runs follow one another, and the rows alternate,
// so that what the machine does besides meets all of them alike.
func compare(ctx context.Context, c config, progress io.Writer) (rep report, err error) {
	if rep, err = newReport(ctx, c); err != nil {
		// which finds what is missing, before anything takes long
		return report{}, err
	}
	folder, err := os.MkdirTemp(c.dir, "rota-compare-*")
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if c.rota == "" {
		fmt.Fprintln(progress, "building rota")
		if c.rota, err = build(ctx, folder); err != nil {
			return report{}, err
		}
	}
	if rep.Rota, err = (rota{c.rota}).title(ctx); err != nil {
		return report{}, err
	}
	var pg *cluster
	if slices.ContainsFunc(c.rows(), func(r row) bool { return r.postgres }) {
		if pg, err = startCluster(ctx, c.dir); err != nil {
			return report{}, err
		}
		defer func() { err = errors.Join(err, pg.close()) }()
	}
	for pair := range c.pairs {
		for i, row := range c.rows() {
			r := &rep.Rows[i]
			for _, s := range []*side{&r.Rota, &r.Peer} {
				fmt.Fprintf(progress, "%s %d/%d %-5s ", r.Name, pair+1, c.pairs, s.Name)
				measured, err := c.once(ctx, folder, pg, row, s)
				if err != nil {
					fmt.Fprintln(progress)
					return report{}, fmt.Errorf("%s, %s: %w", r.Name, s.Name, err)
				}
				s.add(measured)
				fmt.Fprintf(progress, "%7.0f tasks/s, %5.1f µs CPU per task\n", measured.rate(),
					measured.micros())
			}
		}
	}
	rep.conclude()
	return rep, nil
}

// once measures a side of a row on fresh ground: a folder below parent and, if the row wants it, a
// database of pg.
func (c config) once(
	ctx context.Context, parent string, pg *cluster, r row, s *side,
) (m measurement, err error) {
	p, err := peerNamed(s.Name, c.rota)
	if err != nil {
		return measurement{}, err
	}
	var g ground
	if g.folder, err = os.MkdirTemp(parent, s.Name+"-*"); err != nil {
		return measurement{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(g.folder)) }()
	if r.postgres {
		if g.database, err = pg.create(ctx); err != nil {
			return measurement{}, err
		}
		defer func() { err = errors.Join(err, g.database.drop()) }()
	}
	return measurePeer(ctx, s.Name, p, load{s.Callers, s.Batch, s.Clients, s.Linked}, g,
		min(c.seconds, warmup), c.seconds)
}

// build makes the rota binary as its users get it: with the versions of its own go.mod, which this
// module's may exceed.
func build(ctx context.Context, folder string) (string, error) {
	const source = ".."
	if _, err := os.Stat(filepath.Join(source, "cmd", "rota")); err != nil {
		return "", fmt.Errorf(
			"build rota: %w; run this in the folder bench of rota's sources, or name a binary with --rota",
			err,
		)
	}
	binary := filepath.Join(folder, "rota")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/rota")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build rota: %w: %s", err, out)
	}
	return binary, nil
}
