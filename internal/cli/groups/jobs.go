package groups

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// jobsFlags are what `rota group jobs` was told.
type jobsFlags struct {
	from                 string
	add, replace, remove bool
}

func (a commands) jobs() *cobra.Command {
	var f jobsFlags
	cmd := &cobra.Command{
		Use:   "jobs NAME [JOB…]",
		Short: "List or change the jobs of a group",
		Long: `List the jobs of a group, or change them: jobs that are named here, or that --from reads,
become the whole list (--replace, which --from means by itself), are added to it (--add:
those that are there get the given load and spec) or are removed from it (--remove). What
stays in the list runs on.

--from reads a file, - is stdin: {"jobs":[{"job","load","spec"}]}, the list alone, or lines

    access.log
    error.log   0.5                      a load, by itself 1
    web.log     2  {"path":"/srv/web"}   a load and a spec: JSON that the job is given

Empty lines and those that begin with # are skipped. Names are letters, digits and marks of any
script and . - _ : @ +, at most 128, the first a letter, a digit or _.`,
		Example: `  rota group jobs tails
  ls /var/log | rota group jobs tails --from -
  rota group jobs tails access.log error.log --add
  rota group jobs tails web.log --remove`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.Errorf("group jobs needs NAME")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.from, "from", "", "`file` with jobs, - is stdin")
	cmd.Flags().BoolVar(&f.add, "add", false, "add the jobs to the list")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "make the jobs the whole list")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "remove the jobs from the list")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("group", args[0]); err != nil {
			return err
		}
		if err := app.CheckNames("job", args[1:]...); err != nil {
			return err
		}
		if f.add && f.remove || f.add && f.replace || f.remove && f.replace {
			return usage.Errorf("give one of --add, --replace and --remove")
		}
		if f.from == "" && len(args) == 1 {
			if f != (jobsFlags{}) {
				return usage.Errorf("name jobs behind the group, or read them with --from")
			}
			return a.listJobs(ctx, c, args[0])
		}
		jobs, err := a.readJobs(f, args[1:])
		if err != nil {
			return err
		}
		n, err := changeJobs(ctx, c, args[0], f, jobs)
		if err != nil {
			return err
		}
		return a.Show(n, func() string {
			return fmt.Sprintf("%s: %s added, %s removed, %s kept\n", args[0], term.Count(n.Added),
				term.Count(n.Removed), term.Count(n.Kept))
		})
	})
}

// jobView is a job in JSON, with the fields of the API.
type jobView struct {
	Job  string  `json:"job"`
	Load float64 `json:"load"`
	Spec any     `json:"spec,omitempty"`
}

func (a commands) listJobs(ctx context.Context, c *client.Client, group string) error {
	jobs, err := c.Jobs(ctx, group)
	if err != nil {
		return err
	}
	doc := term.Page[jobView]{Items: make([]jobView, len(jobs))}
	for i, job := range jobs {
		doc.Items[i] = jobView{Job: job.Name, Load: job.Load.Float()}
		if job.Spec != nil {
			doc.Items[i].Spec = job.Spec
		}
	}
	return a.Show(doc, func() string {
		t := a.Table("JOB", "#LOAD", "SPEC")
		for _, job := range jobs {
			t.Add(job.Name, fmt.Sprint(job.Load.Float()), term.OneLine(string(job.Spec)))
		}
		return t.String()
	})
}

// readJobs reads the jobs that were named, and those of --from.
func (a commands) readJobs(f jobsFlags, named []string) ([]task.Job, error) {
	if len(named) > 0 && !f.add && !f.replace && !f.remove {
		return nil, usage.Errorf(
			"say whether to --add, --remove or --replace by jobs that are named",
		)
	}
	var jobs []task.Job
	if f.from != "" {
		text, err := a.ReadFrom(f.from)
		if err != nil {
			return nil, err
		}
		if jobs, err = wire.ParseJobText(text, limits.MaxJobs); err != nil {
			return nil, fmt.Errorf("%s: %w", app.SourceName(f.from), err)
		}
		if text = bytes.TrimSpace(text); len(jobs) == 0 && !bytes.HasSuffix(text, []byte("]")) &&
			!bytes.HasSuffix(text, []byte("}")) {
			return nil, fmt.Errorf(`%s: no job in it; {"jobs":[]} is an empty list that is meant`,
				app.SourceName(f.from))
		}
	}
	for _, name := range named {
		jobs = append(jobs, task.Job{Name: name, Load: task.Unit})
	}
	for i := range jobs {
		jobs[i].Name = names.Canonical(jobs[i].Name)
	}
	var e task.InvalidError
	if limits.CheckJobs(&e, "jobs", jobs); e.Err() != nil {
		return nil, usage.Errorf("%v", &e)
	}
	return jobs, nil
}

// changeJobs does what the flags say. Only a replacement is all or nothing: the others may be
// repeated.
func changeJobs(
	ctx context.Context, c *client.Client, group string, f jobsFlags, jobs []task.Job,
) (sum client.JobsChanged, err error) {
	switch {
	case f.remove:
		for _, job := range jobs {
			if err := c.RemoveJob(ctx, group, job.Name); err != nil {
				return sum, removed(sum, err)
			}
			sum.Removed++
		}
		return sum, nil
	case f.add:
		for len(jobs) > 0 {
			n := addable(jobs)
			changed, err := c.AddJobs(ctx, group, jobs[:n]...)
			if err != nil {
				return sum, err
			}
			sum.Added, sum.Kept = sum.Added+changed.Added, sum.Kept+changed.Kept
			jobs = jobs[n:]
		}
		return sum, nil
	case len(jobs) > task.MaxJobChange:
		return sum, usage.Errorf("%s jobs are more than the %s that can be replaced at once: --add takes more, and so does a source",
			term.Count(len(jobs)), term.Count(task.MaxJobChange))
	}
	return c.PutJobs(ctx, group, jobs...)
}

// removed adds to an error what was done before.
func removed(sum client.JobsChanged, err error) error {
	if sum.Removed == 0 {
		return err
	}
	return fmt.Errorf("%s removed, then: %w", term.Plural(sum.Removed, "job"), err)
}

// addable is how many of the jobs travel in one call.
func addable(jobs []task.Job) int {
	const most = 16 << 20 // bytes, half of what a server takes
	size := 0
	for i := range jobs {
		if size += len(jobs[i].Spec) + 256; i == task.MaxJobChange || i > 0 && size > most {
			return i
		}
	}
	return len(jobs)
}
