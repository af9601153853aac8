package tools

import (
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/bench"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
)

// commands are the commands that measure rota and show it at work.
type commands struct{ *app.App }

// Commands are the commands that measure rota and show it at work.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.bench(), c.simulate(), c.demo(), c.demoWorker()}
}

func (a commands) bench() *cobra.Command {
	conf := bench.Config{Version: app.Version(), Output: &a.Output}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this binary on this machine",
		Long: `Measure this binary on this machine, each benchmark --repeat times on a fresh store with
fsync on, and print medians beside what is aimed at:

` + bench.List() + `
Server and worker are processes of their own; CPU is that of all processes together.
Every submitted task must be counted done in the end, else the command fails. The
figures of a shared machine vary by a factor of two from minute to minute.

With --store the nodes work on a PostgreSQL database, in a schema that is made for each run
and dropped after it: http, library, lone, console, stages, stages-library, and latency
between two nodes.`,
		Example: `  rota bench
  rota bench --store postgres://postgres@127.0.0.1/postgres --only http,latency
  rota bench --only http,latency --seconds 30s -o json`,
		Args: app.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.Run(cmd.Context(), conf) },
	}
	s := cmd.Flags()
	a.AddShared(s, "output")
	s.StringSliceVar(&conf.Only, "only", nil, "`names` of the benchmarks to run (default all)")
	s.DurationVar(&conf.Length, "seconds", 10*time.Second, "how long each run measures, as 10s")
	s.IntVar(&conf.Repeat, "repeat", 3, "runs of each benchmark; the median counts")
	s.StringVar(&conf.Folder, "dir", ".",
		"`folder` on the disk to measure; a temporary folder is made in it and removed")
	s.StringVar(&conf.Store, "store", "",
		"database to measure on, postgres://`USER@HOST/DATABASE` (default a SQLite file)")
	s.IntVar(&conf.Ready, "ready", 1_000_000, "tasks of the benchmark ready")
	s.IntVar(&conf.Pollers, "pollers", 2_000, "workers of the benchmark idle")
	s.IntVar(&conf.Schedules, "schedules", 10_000,
		"schedules of the benchmark schedules; it starts a node with ten times as many")
	s.BoolVar(&conf.Stream, "stream", false,
		"make calls on one WebSocket to the server, as Go clients do by themselves, not over HTTP")
	cmd.AddCommand(a.benchWorker())
	return cmd
}

// benchWorker is the worker process of `rota bench`.
func (a commands) benchWorker() *cobra.Command {
	conf := bench.WorkerConfig{Out: a.Out}
	stream := false
	cmd := &cobra.Command{
		Use: "worker", Short: "The worker process of the benchmarks", Hidden: true,
		Args: app.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if conf.Client, err = a.Connect(client.Config{HTTPOnly: !stream}); err != nil {
				return err
			}
			defer conf.Client.Close()
			return bench.Work(cmd.Context(), conf)
		},
	}
	a.AddShared(cmd.Flags())
	cmd.Flags().BoolVar(&stream, "stream", false, "make calls on one WebSocket")
	cmd.Flags().StringVar(&conf.Queue, "queue", bench.Queue, "`queue` to take tasks from")
	cmd.Flags().IntVar(&conf.Capacity, "capacity", bench.Lanes, "handlers at a time")
	cmd.Flags().BoolVar(&conf.Waits, "waits", false, "print how long each task waited")
	return cmd
}
