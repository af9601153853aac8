package tools

import (
	"context"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/demo"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

func (a commands) demo() *cobra.Command {
	conf := demo.Config{Output: &a.Output}
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "See the whole of it at work on real files",
		Long: `See the whole of it at work, in about twenty seconds: start a node on a temporary store and
some worker processes, and submit one task for each file under DIR (default: the current
directory). The first line names the console's address: open it and watch. A task has three
stages: read takes the file's size and a digest of each chunk, digest takes its
SHA-256, verify reads it once more and compares. What was found travels in the task's
context; that of a larger file goes to the blob folder.

A third of the files is submitted first, and one more. When that third is done, the worker that
holds on to the one more gets SIGKILL. Another takes its place, the rest is submitted, and the lost
task is handed out again after 4 s of silence. The rate leaves these waits out: it counts the tasks
that were never lost, from the first hand-out to the last outcome before the kill, and likewise
after it.

Beside the files a schedule fires every two seconds, and a job tells the time in its log: it
runs on the worker that is killed, and then on another one. When the files are done they go
on until --for is over. Of a large folder the first --files are taken.

In the end every file is read once more, by the demo itself, and compared with what the
server has of it. Only then it says that every file is accounted for; else it lists those
that are not, and the exit code is 1. Links are not followed; files that can't be read, or
that change meanwhile, are listed as such.`,
		Example: `  rota demo
  rota demo /usr/share/doc --workers 5
  rota demo --keep ~/photos        # stay, with the console, until Ctrl-C; and leave the store
  rota demo --for 0s --files 0 /   # all there is, and no longer than that takes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("demo does not take %q: one folder at a time", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				conf.Folder = args[0]
			}
			return demo.Run(cmd.Context(), conf)
		},
	}
	s := cmd.Flags()
	a.AddShared(s, "output")
	s.IntVar(&conf.Workers, "workers", 3, "worker processes")
	s.BoolVar(&conf.Keep, "keep", false,
		"stay until Ctrl-C, the console open and the workers at work; then leave the store")
	s.Int64Var(&conf.Files, "files", 20_000, "at most so many files; 0 = all")
	s.DurationVar(&conf.For, "for", 20*time.Second, "last so long at least")
	return cmd
}

// demoWorker is a worker process of `rota demo`.
func (a commands) demoWorker() *cobra.Command {
	conf := demo.WorkerConfig{Out: a.Out}
	cmd := a.Remote(&cobra.Command{
		Use: "demo-worker", Short: "A worker process of the demo", Hidden: true, Args: app.Takes(),
	},
		func(ctx context.Context, c *client.Client, _ []string) error {
			conf.Client = c
			return demo.Work(ctx, conf)
		})
	cmd.Flags().StringVar(&conf.Name, "name", "demo", "`name` of the worker")
	cmd.Flags().BoolVar(&conf.Hesitate, "hesitate", false,
		"hold on to the first task until the worker ends: whoever kills it takes that away")
	return cmd
}
