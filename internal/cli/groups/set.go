package groups

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/simulate"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setFlags are what `rota group set` was told.
type setFlags struct {
	group    client.GroupChange // but for what is below
	policy   client.PolicyChange
	selector []string
	source   sourceFlags
	given    *pflag.FlagSet
}

// sourceFlags say where a group's jobs come from.
type sourceFlags struct {
	file, url string
	api       bool
	every     time.Duration
}

func (a commands) set() *cobra.Command {
	var f setFlags
	cmd := a.Remote(&cobra.Command{
		Use:   "set NAME [-- COMMAND [ARG…]]",
		Short: "Create a group or change its configuration",
		Long: `Create a group or change its configuration, and print all of it. What no flag names stays
as it is, or gets its default in a new group; without a flag nothing is created or changed.

The list of jobs is given by rota group jobs, or read from a source again and again: a file
on the nodes' machines (a relative path is one from here), a URL, or what a COMMAND prints.
Files are read only below the folder that a node was started with (rota serve
--source-folder), and commands run only where --allow-commands is. All of them hold
{"jobs":[{"job","load","spec"}]} or the list alone; a file may hold lines as rota group jobs
--from takes them. A source that fails changes nothing.`,
		Example: `  rota group set tails --replicas 2 --selector disk=fast
  rota group set crawl --source-url https://example.com/jobs.json --every 5m
  rota group set mounts --every 1m -- ./list-mounts.sh --json
  rota group set feeds --silence 30s --job-silence 2m
  rota group set feeds --title 'Feeds of the exchanges' --owner ana@example.com`,
		Args: groupSetArgs,
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("group", args[0]); err != nil {
			return err
		}
		if err := app.CheckGiven(f.given, "every"); err != nil {
			return err
		}
		change, err := f.change(args[1:])
		if err != nil {
			return err
		}
		g, err := app.Setting[client.GroupChange, task.Group]{
			Kind: "group", Put: c.PutGroup,
			Read: func(ctx context.Context, name string) (task.Group, error) {
				g, err := c.Group(ctx, name)
				return g.Group, err
			},
			Creates: "group set with a setting creates it, as --replicas 1",
		}.Apply(ctx, args[0], change)
		if err != nil {
			return err
		}
		return a.Show(viewOfConf(g), func() string { return confText(g) })
	})
	f.add(cmd)
	return cmd
}

func (f *setFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	f.given = s
	app.Optional(s, s.Int, &f.group.Replicas, "replicas",
		"workers that run each job (default 1)")
	app.Optional(s, s.String, &f.group.Spread, "spread",
		"`zone` or worker: what the replicas of a job are kept apart by, zones where workers name theirs (default zone)")
	app.Optional(s, s.Int, &f.policy.Moves, "moves",
		"replicas that move to a better worker at a time; 0 = only what must move does (default 10)")
	app.Optional(s, s.Int, &f.policy.New, "new",
		"replicas that one worker starts at a time (default 4)")
	app.Optional(s, s.Duration, &f.policy.Penalty, "penalty",
		"so long is a worker avoided on which a job just failed (default 1m)")
	app.Optional(s, s.Duration, &f.policy.Warmup, "warmup",
		"so long, at most, a node that is new to the group waits for its workers (default 30s)")
	app.Optional(s, s.Duration, &f.group.Silence, "silence",
		"a worker of which nothing is heard for so long loses its replicas; of several groups the shortest counts (default 15s)")
	app.Optional(s, s.Duration, &f.group.JobSilence, "job-silence",
		"a replica that logs no line and gives no other sign for so long is started elsewhere; 0 = never (default 0)")
	app.TitleFlag(s, &f.group.Title)
	app.OwnerFlag(s, &f.group.Owner)
	s.StringSliceVar(&f.selector, "selector", nil,
		"`k=v` that a worker must have as a label; repeat it for more; \"\" takes all away (default any worker)")
	s.StringVar(&f.source.file, "source-file", "",
		"`file` on the nodes' machines that lists the jobs")
	s.StringVar(&f.source.url, "source-url", "", "`URL` that answers with the jobs")
	s.BoolVar(&f.source.api, "source-api", false, "the jobs are given by rota group jobs again")
	s.DurationVar(&f.source.every, "every", 0, "between two readings of the source (default 30m)")
	app.Complete(cmd, "spread", task.SpreadZone, task.SpreadWorker)
}

// change is the change that the flags, and the command of a source, ask for.
func (f *setFlags) change(command []string) (change client.GroupChange, err error) {
	change = f.group
	if f.policy != (client.PolicyChange{}) {
		change.Policy = &f.policy
	}
	if f.given.Changed("selector") {
		labels, err := simulate.ParseSelector(f.selector)
		if err != nil {
			return change, err
		}
		change.Selector = &labels
	}
	change.Source, err = f.source.change(command)
	return change, err
}

// confView is a group's configuration in JSON, with the fields of the API.
type confView struct {
	Name     string            `json:"name"`
	Replicas int               `json:"replicas"`
	Selector map[string]string `json:"selector"`
	Spread   string            `json:"spread"`
	Source   confSource        `json:"source"`
	Policy   confPolicy        `json:"policy"`
	Paused   bool              `json:"paused"`

	Silence    string `json:"silence"`
	JobSilence string `json:"job_silence"`
	Title      string `json:"title"`
	Owner      string `json:"owner"`
}

type confSource struct {
	Kind    string   `json:"kind"`
	Path    string   `json:"path,omitempty"`
	URL     string   `json:"url,omitempty"`
	Command []string `json:"command,omitempty"`
	Every   string   `json:"every"`
}

type confPolicy struct {
	Moves   int    `json:"moves_per_round"`
	New     int    `json:"new_per_round"`
	Penalty string `json:"penalty"`
	Warmup  string `json:"warmup"`
}

func viewOfConf(g task.Group) confView {
	s, p := g.Source, g.Policy
	return confView{
		g.Name, g.Replicas, g.Selector, g.Spread,
		confSource{s.Kind, s.Path, s.URL, s.Command, s.Every.String()},
		confPolicy{p.Moves, p.New, p.Penalty.String(), p.Warmup.String()}, g.Paused,
		g.Silence.String(), g.JobSilence.String(), g.Title, g.Owner,
	}
}

// groupSetArgs lets only a command stand behind the name, and only behind a --.
func groupSetArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return usage.Errorf("group set needs NAME")
	case dash < 0 && len(args) > 1 || dash > 1:
		return usage.Errorf("group set does not take %q; the command of a source stands behind --",
			args[1])
	}
	return nil
}

// change is what the flags, and a command, change; nil = nothing.
func (f *sourceFlags) change(command []string) (*task.Source, error) {
	source := task.Source{URL: f.url, Command: command, Every: f.every}
	given := 0
	for _, s := range []struct {
		kind  string
		given bool
	}{
		{task.SourceFile, f.file != ""}, {task.SourceURL, f.url != ""},
		{task.SourceCommand, len(command) > 0}, {task.SourceAPI, f.api},
	} {
		if s.given {
			source.Kind = s.kind
			given++
		}
	}
	if given > 1 {
		return nil, usage.Errorf(
			"a group has one source: --source-file, --source-url, --source-api or a command",
		)
	}
	if f.file != "" {
		var err error
		if source.Path, err = filepath.Abs(f.file); err != nil {
			return nil, fmt.Errorf("find %q: %w", f.file, err)
		}
	}
	if given == 0 && f.every == 0 {
		return nil, nil
	}
	return &source, nil
}

// confText is a group's configuration.
func confText(g task.Group) string {
	s := term.Sheet{Indent: 10}
	s.Line("group", term.Bold(g.Name))
	s.Line("title", term.OneLine(g.Title))
	s.Line("owner", term.OneLine(g.Owner))
	s.Line("replicas", fmt.Sprintf("%d, spread over %ss", g.Replicas, g.Spread))
	s.Line("selector", term.Labels(g.Selector))
	s.Line("source", sourceText(g.Source))
	s.Line("moves", fmt.Sprintf("%s a round", term.Count(g.Policy.Moves)))
	s.Line("new", fmt.Sprintf("%s a round and worker", term.Count(g.Policy.New)))
	s.Line("penalty", g.Policy.Penalty.String())
	s.Line("warmup", g.Policy.Warmup.String())
	s.Line("silence", silenceText(g))
	s.Line("paused", fmt.Sprint(g.Paused))
	return s.String()
}

// silenceText says how long workers and handlers may be silent.
func silenceText(g task.Group) string {
	if g.JobSilence == 0 {
		return fmt.Sprintf("%v of a worker, handlers may be quiet", g.Silence)
	}
	return fmt.Sprintf("%v of a worker, %v of a handler", g.Silence, g.JobSilence)
}

// sourceText says where a group's jobs come from.
func sourceText(s task.Source) string {
	if s.Kind == task.SourceAPI {
		return "rota group jobs"
	}
	what := s.Path + s.URL + strings.Join(s.Command, " ")
	return term.OneLine(fmt.Sprintf("%s %s, every %v", s.Kind, what, s.Every))
}
