package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/spf13/cobra"
)

// benchmark measures one thing. A run answers one value for each of its goals, in their order.
type benchmark struct {
	name  string
	what  string
	goals []goal
	run   func(*rig, context.Context) ([]float64, error)
}

// goal is one figure of a benchmark, with what it should reach and must reach; both 0 = shown for comparison only.
type goal struct {
	unit          string
	target, floor float64 // floor > target: less is better
}

// figure is a goal as it was measured.
type figure struct {
	Name   string    `json:"name"`
	What   string    `json:"what"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Runs   []float64 `json:"runs"`
	Target float64   `json:"target,omitempty"`
	Floor  float64   `json:"floor,omitempty"`
}

// reached is the figure's standing: target, floor, below, or "" without a goal.
func (f figure) reached() string {
	better := func(a, b float64) bool { return a >= b == (f.Target > f.Floor) || a == b }
	switch {
	case f.Floor == 0:
		return ""
	case better(f.Median, f.Target):
		return "target"
	case better(f.Median, f.Floor):
		return "floor"
	}
	return "below"
}

// report is the JSON of `rota bench`.
type report struct {
	Version string   `json:"version"`
	Machine string   `json:"machine"`
	Cores   int      `json:"cores"`
	Started stamp    `json:"started"`
	Seconds float64  `json:"seconds"`
	Repeat  int      `json:"repeat"`
	Figures []figure `json:"figures"`
}

// benchFlags are what `rota bench` was told.
type benchFlags struct {
	only    []string
	seconds time.Duration
	repeat  int
	folder  string
	store   string // a database; "" = a file in the folder
	ready   int
	pollers int

	schedules int
}

func benchmarks() []benchmark {
	return []benchmark{
		{"http", "life cycle through HTTP, 100 per submission, one worker with 64 lanes",
			[]goal{{"tasks/s", 150_000, 100_000}, {"CPU µs/task", 9, 14}}, (*rig).lifeHTTP},
		{"library", "life cycle in process, 100 per submission, 64 handlers",
			[]goal{{"tasks/s", 200_000, 130_000}, {"CPU µs/task", 5, 8}}, (*rig).lifeInProcess},
		{"lone", "lone submissions by 64 callers over HTTP, until done",
			[]goal{{"tasks/s", 15_000, 10_000}, {"CPU µs/task", 0, 0}}, (*rig).lone},
		{"latency", "submit to start at 100 tasks/s, remote worker",
			[]goal{{"p50 ms", 1, 2}, {"p99 ms", 5, 10}, {"fsync p99 ms", 0, 0}}, (*rig).latency},
		{"ready", "many ready tasks: the server's memory; kill -9 and restart until a worker has its first task",
			[]goal{{"RSS MB", 64, 100}, {"seconds", 0.5, 2}}, (*rig).manyReady},
		{"idle", "idle long-polling workers",
			[]goal{{"RSS MB", 80, 120}, {"% of a core", 0.5, 2}}, (*rig).idle},
		{"beats", "workers that run five jobs each and beat every 3 s",
			[]goal{{"RSS MB", 0, 0}, {"% of a core", 5, 15}}, (*rig).beats},
		{"schedules", "fired each minute: lateness, CPU between; a node starts with ten times as many; half as many catch up with an hour",
			[]goal{{"p99 ms", 1000, 2000}, {"% of a core", 10, 20}, {"seconds to start", 3, 6}, {"seconds to catch up", 60, 120}}, (*rig).firing},
	}
}

// onDatabase are the benchmarks of a node on PostgreSQL.
func onDatabase() []benchmark {
	return []benchmark{
		{"http", "life cycle through HTTP, 100 per submission, one worker with 64 lanes; CPU with the database's",
			[]goal{{"tasks/s", 90_000, 60_000}, {"CPU µs/task", 15, 22}, {"WAL bytes/task", 500, 800}}, (*rig).lifeHTTP},
		{"library", "life cycle in process, 100 per submission, 64 handlers; CPU with the database's",
			[]goal{{"tasks/s", 105_000, 65_000}, {"CPU µs/task", 11, 16}, {"WAL bytes/task", 500, 800}}, (*rig).lifeInProcess},
		{"lone", "lone submissions by 64 callers over HTTP, until done; CPU with the database's",
			[]goal{{"tasks/s", 10_000, 6_000}, {"CPU µs/task", 0, 0}, {"WAL bytes/task", 0, 0}}, (*rig).lone},
		{"latency", "submit to one node, start at a worker of another, 100 tasks/s",
			[]goal{{"p50 ms", 0, 0}, {"p99 ms", 15, 30}, {"fsync p99 ms", 0, 0}}, (*rig).latency},
	}
}

func (a *app) bench() *cobra.Command {
	var f benchFlags
	all := benchmarks()
	var list strings.Builder
	for _, b := range all {
		fmt.Fprintf(&list, "    %-8s %s\n", b.name, b.what)
	}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this binary on this machine",
		Long: `Measure this binary on this machine, each benchmark --repeat times on a fresh store with
fsync on, and print medians beside what is aimed at:

` + list.String() + `
Server and worker are processes of their own; CPU is that of all processes together.
Every submitted task must be counted done in the end, else the command fails. The
figures of a shared machine vary by a factor of two from minute to minute.

With --store the nodes work on a PostgreSQL database, in a schema that is made for each run
and dropped after it: http, library, lone, and latency between two nodes.`,
		Example: `  rota bench
  rota bench --store postgres://postgres@127.0.0.1/postgres --only http,latency
  rota bench --only http,latency --seconds 30s -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.store != "" {
				all = onDatabase()
			}
			chosen, err := f.choose(all)
			if err != nil {
				return err
			}
			return a.runBench(cmd.Context(), f, chosen)
		},
	}
	s := cmd.Flags()
	s.AddFlag(a.shared.Lookup("output"))
	s.StringSliceVar(&f.only, "only", nil, "`names` of the benchmarks to run (default all)")
	s.DurationVar(&f.seconds, "seconds", 10*time.Second, "how long each run measures, as 10s")
	s.IntVar(&f.repeat, "repeat", 3, "runs of each benchmark; the median counts")
	s.StringVar(&f.folder, "dir", ".", "`folder` on the disk to measure; a temporary folder is made in it and removed")
	s.StringVar(&f.store, "store", "", "database to measure on, postgres://`USER@HOST/DATABASE` (default a SQLite file)")
	s.IntVar(&f.ready, "ready", 1_000_000, "tasks of the benchmark ready")
	s.IntVar(&f.pollers, "pollers", 2_000, "workers of the benchmark idle")
	s.IntVar(&f.schedules, "schedules", 10_000, "schedules of the benchmark schedules; it starts a node with ten times as many")
	cmd.AddCommand(a.benchWorker())
	return cmd
}

// choose checks the flags and picks the benchmarks to run.
func (f *benchFlags) choose(all []benchmark) ([]benchmark, error) {
	if f.seconds < time.Second || f.repeat < 1 || f.ready < 1 || f.pollers < 1 || f.schedules < 2 {
		return nil, usagef("--seconds must be at least 1s; --repeat, --ready and --pollers at least 1; --schedules at least 2")
	}
	if len(f.only) == 0 {
		return all, nil
	}
	var chosen []benchmark
	for _, name := range f.only {
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return nil, usagef("--only %q: no such benchmark, see --help", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (a *app) runBench(ctx context.Context, f benchFlags, chosen []benchmark) error {
	r := report{
		Version: version(), Machine: machine(), Cores: runtime.NumCPU(), Started: stamp(a.now()), Seconds: f.seconds.Seconds(), Repeat: f.repeat,
	}
	for _, b := range chosen {
		runs := make([][]float64, len(b.goals))
		for i := range f.repeat {
			values, err := a.runOnce(ctx, f, b, fmt.Sprintf("%s %d/%d", b.name, i+1, f.repeat))
			if err != nil {
				return fmt.Errorf("benchmark %s: %w", b.name, err)
			}
			for j, v := range values {
				runs[j] = append(runs[j], v)
			}
		}
		for i, g := range b.goals {
			r.Figures = append(r.Figures, figure{
				Name: b.name, What: b.what, Unit: g.unit, Median: median(runs[i]), Runs: runs[i], Target: g.target, Floor: g.floor,
			})
		}
	}
	return a.show(r, func() string { return a.benchTable(r) })
}

// runOnce runs b on a fresh folder, and leaves neither processes nor files behind.
func (a *app) runOnce(ctx context.Context, f benchFlags, b benchmark, title string) (values []float64, err error) {
	folder, err := os.MkdirTemp(f.folder, "rota-bench-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	r := &rig{benchFlags: f, folder: folder, title: title, progress: a.newProgress()}
	defer r.progress.clear()
	if f.store != "" {
		if r.database, err = openDatabase(ctx, f.store, folder); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.database.close()) }()
	}
	defer r.stop()
	r.note("starting")
	return b.run(r, ctx)
}

func (a *app) benchTable(r report) string {
	t := a.newTable("BENCHMARK", "#MEDIAN", "UNIT", "#LOWEST", "#HIGHEST", "#TARGET", "#FLOOR", "REACHED", "WHAT")
	goal := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return number(v)
	}
	for _, f := range r.Figures {
		reached := f.reached()
		switch reached {
		case "target":
			reached = green(reached)
		case "floor":
			reached = yellow(reached)
		case "below":
			reached = red(reached)
		}
		t.add(f.Name, bold(number(f.Median)), f.Unit, number(slices.Min(f.Runs)), number(slices.Max(f.Runs)), goal(f.Target), goal(f.Floor),
			reached, f.What)
	}
	return fmt.Sprintf("%s, %d cores, rota %s, %d runs of %vs each\n\n%s", r.Machine, r.Cores, r.Version, r.Repeat, r.Seconds, t)
}

// number is a figure with three digits at least.
func number(v float64) string {
	switch {
	case v >= 1000:
		return count(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// machine is the processor's name.
func machine() string {
	if models, err := cpu.Info(); err == nil && len(models) > 0 && models[0].ModelName != "" {
		return strings.Join(strings.Fields(models[0].ModelName), " ")
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}
