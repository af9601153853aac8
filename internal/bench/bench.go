// Package bench is `rota bench`: it measures this program on this machine. Each benchmark is a
// method of rig, which stands for one run: a folder or a database schema, and the node and worker
// processes that were started on it. Run repeats the chosen benchmarks and shows the medians beside
// what is aimed at; Work is the worker process. The module in /bench compares rota with other
// systems.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
)

// benchmark measures one thing. A run answers one value for each of its goals, in their order.
type benchmark struct {
	name  string
	what  string
	goals []goal
	run   func(*rig, context.Context) ([]float64, error)
}

// goal is one figure of a benchmark, with what it should reach and must reach; both 0 = shown for
// comparison only.
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
	Version string     `json:"version"`
	Machine string     `json:"machine"`
	Cores   int        `json:"cores"`
	Started term.Stamp `json:"started"`
	Seconds float64    `json:"seconds"`
	Repeat  int        `json:"repeat"`
	Figures []figure   `json:"figures"`
}

// Config is what is to be measured, and how.
type Config struct {
	Only    []string      // names of the benchmarks to run; none = all
	Length  time.Duration // how long each run measures
	Repeat  int           // runs of each benchmark
	Folder  string        // on the disk to measure; a temporary folder is made in it and removed
	Store   string        // a database; "" = a file in the folder
	Ready   int           // tasks of the benchmark ready
	Pollers int           // workers of the benchmarks idle and beats

	Schedules int  // of the benchmark schedules
	Stream    bool // calls are made on one WebSocket

	Version string       // of this program
	Output  *term.Output // for the report
}

// List lists the benchmarks for people, a line each.
func List() string {
	var list strings.Builder
	for _, b := range benchmarks() {
		fmt.Fprintf(&list, "    %-14s %s\n", b.name, b.what)
	}
	return list.String()
}

// Run measures, and shows the figures.
func Run(ctx context.Context, conf Config) error {
	all := benchmarks()
	if conf.Store != "" {
		all = onDatabase()
	}
	chosen, err := conf.choose(all)
	if err != nil {
		return err
	}
	return conf.measure(ctx, chosen)
}

func benchmarks() []benchmark {
	return []benchmark{
		{"http", "life cycle through HTTP, 100 per submission, one worker with 64 lanes",
			[]goal{{"tasks/s", 150_000, 100_000}, {"CPU µs/task", 9, 14}}, (*rig).lifeHTTP},
		{"library", "life cycle in process, 100 per submission, 64 handlers",
			[]goal{{"tasks/s", 200_000, 130_000}, {"CPU µs/task", 5, 8}}, (*rig).lifeInProcess},
		{"queue-limits", "the same as http, in a queue whose limits hold nothing back",
			[]goal{{"tasks/s", 75_000, 50_000}, {"CPU µs/task", 18, 28}}, (*rig).limited},
		{"limits", "the same as http, in a queue with a rate, and with limits of each of its 10,000 keys",
			[]goal{{"tasks/s", 75_000, 50_000}, {"CPU µs/task", 18, 28}}, (*rig).limitedKeys},
		{"lone", "lone submissions by 64 callers over HTTP, until done",
			[]goal{{"tasks/s", 15_000, 10_000}, {"CPU µs/task", 0, 0}}, (*rig).lone},
		{"latency", "submit to start at 100 tasks/s, remote worker",
			[]goal{{"p50 ms", 1, 2}, {"p99 ms", 5, 10}, {"fsync p99 ms", 0, 0}}, (*rig).latency},
		{"console", "CPU that the overview costs in one browser, and in ten, of the machine's",
			[]goal{{"% by one", 2, 3}, {"% by ten", 0, 0}}, (*rig).consoles},
		{"stages", "one task through 400 stages, one after the other, with a server, by a worker with one lane",
			stageGoals(), (*rig).stages},
		{"stages-library", "one task through 400 stages, one after the other, in process",
			stageGoals(), (*rig).ownStages},
		{"ready", "many ready tasks: the server's memory; kill -9 and restart until a worker has its first task",
			[]goal{{"RSS MB", 64, 100}, {"seconds", 0.5, 2}}, (*rig).manyReady},
		{"idle", "idle long-polling workers",
			[]goal{{"RSS MB", 80, 120}, {"% of a core", 0.5, 2}}, (*rig).idle},
		{"beats", "workers that run five jobs each and beat every 3 s",
			[]goal{{"RSS MB", 0, 0}, {"% of a core", 5, 15}}, (*rig).beats},
		{"schedules",
			"fired each minute: lateness, CPU between; a node starts with ten times as many; half as many catch up with an hour",
			[]goal{{"p99 ms", 1000, 2000}, {"% of a core", 10, 20}, {"seconds to start", 3, 6},
				{"seconds to catch up", 60, 120}}, (*rig).firing},
	}
}

// onDatabase are the benchmarks of a node on PostgreSQL.
func onDatabase() []benchmark {
	return []benchmark{
		{"http", "life cycle through HTTP, 100 per submission, one worker with 64 lanes; CPU with the database's",
			[]goal{{"tasks/s", 90_000, 60_000}, {"CPU µs/task", 15, 22},
				{"WAL bytes/task", 500, 800}}, (*rig).lifeHTTP},
		{"library", "life cycle in process, 100 per submission, 64 handlers; CPU with the database's",
			[]goal{{"tasks/s", 105_000, 65_000}, {"CPU µs/task", 11, 16},
				{"WAL bytes/task", 500, 800}}, (*rig).lifeInProcess},
		{"queue-limits", "the same as http, in a queue whose limits hold nothing back; CPU with the database's",
			[]goal{{"tasks/s", 45_000, 30_000}, {"CPU µs/task", 30, 44},
				{"WAL bytes/task", 1000, 1600}}, (*rig).limited},
		{"limits", "the same as http, in a queue with a rate, and with limits of each of its 10,000 keys; CPU with the database's",
			[]goal{{"tasks/s", 45_000, 30_000}, {"CPU µs/task", 30, 44},
				{"WAL bytes/task", 1000, 1600}}, (*rig).limitedKeys},
		{"lone", "lone submissions by 64 callers over HTTP, until done; CPU with the database's",
			[]goal{{"tasks/s", 10_000, 6_000}, {"CPU µs/task", 0, 0}, {"WAL bytes/task", 0, 0}},
			(*rig).lone},
		{"latency", "submit to one node, start at a worker of another, 100 tasks/s",
			[]goal{{"p50 ms", 0, 0}, {"p99 ms", 15, 30}, {"fsync p99 ms", 0, 0}}, (*rig).latency},
		{"console", "CPU that the overview costs in one browser, and in ten, of the machine's",
			[]goal{{"% by one", 2, 3}, {"% by ten", 0, 0}}, (*rig).consoles},
		{"stages", "one task through 400 stages, one after the other, with a server, by a worker with one lane",
			stageGoals(), (*rig).stages},
		{"stages-library", "one task through 400 stages, one after the other, in process",
			stageGoals(), (*rig).ownStages},
	}
}

// stageGoals are shown for comparison.
func stageGoals() []goal { return []goal{{"ms", 0, 0}, {"ms/stage", 0, 0}} }

// choose checks the flags and picks the benchmarks to run.
func (f *Config) choose(all []benchmark) ([]benchmark, error) {
	if f.Length < time.Second || f.Repeat < 1 || f.Ready < 1 || f.Pollers < 1 || f.Schedules < 2 {
		return nil, usage.Errorf(
			"--seconds must be at least 1s; --repeat, --ready and --pollers at least 1; --schedules at least 2",
		)
	}
	if len(f.Only) == 0 {
		return all, nil
	}
	var chosen []benchmark
	for _, name := range f.Only {
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return nil, usage.Errorf("--only %q: no such benchmark, see --help", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (f *Config) measure(ctx context.Context, chosen []benchmark) error {
	r := report{
		Version: f.Version, Machine: measure.Machine(), Cores: runtime.NumCPU(),
		Started: term.Stamp(f.Output.Now()), Seconds: f.Length.Seconds(), Repeat: f.Repeat,
	}
	for _, b := range chosen {
		runs := make([][]float64, len(b.goals))
		for i := range f.Repeat {
			values, err := f.runOnce(ctx, b, fmt.Sprintf("%s %d/%d", b.name, i+1, f.Repeat))
			if err != nil {
				return fmt.Errorf("benchmark %s: %w", b.name, err)
			}
			for j, v := range values {
				runs[j] = append(runs[j], v)
			}
		}
		for i, g := range b.goals {
			r.Figures = append(r.Figures, figure{
				Name: b.name, What: b.what, Unit: g.unit, Median: measure.Median(runs[i]),
				Runs: runs[i], Target: g.target, Floor: g.floor,
			})
		}
	}
	return f.Output.Show(r, func() string { return tableOf(f.Output, r) })
}

// runOnce runs b on a fresh folder, and leaves neither processes nor files behind.
func (f *Config) runOnce(
	ctx context.Context, b benchmark, title string,
) (values []float64, err error) {
	folder, err := os.MkdirTemp(f.Folder, "rota-bench-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	r := &rig{Config: f, folder: folder, title: title, progress: f.Output.Progress()}
	defer r.progress.Clear()
	if f.Store != "" {
		if r.database, err = openDatabase(ctx, f.Store, folder); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.database.close()) }()
	}
	defer r.stop()
	r.note("starting")
	return b.run(r, ctx)
}

func tableOf(o *term.Output, r report) string {
	t := o.Table("BENCHMARK", "#MEDIAN", "UNIT", "#LOWEST", "#HIGHEST", "#TARGET", "#FLOOR",
		"REACHED", "WHAT")
	goal := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return term.Number(v)
	}
	for _, f := range r.Figures {
		reached := f.reached()
		switch reached {
		case "target":
			reached = term.Green(reached)
		case "floor":
			reached = term.Yellow(reached)
		case "below":
			reached = term.Red(reached)
		}
		t.Add(f.Name, term.Bold(term.Number(f.Median)), f.Unit, term.Number(slices.Min(f.Runs)),
			term.Number(slices.Max(f.Runs)), goal(f.Target), goal(f.Floor),
			reached, f.What)
	}
	return fmt.Sprintf("%s, %d cores, rota %s, %d runs of %vs each\n\n%s", r.Machine, r.Cores,
		r.Version, r.Repeat, r.Seconds, t)
}
