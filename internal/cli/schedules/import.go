package schedules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

// importFlags are what `rota schedule import` was told.
type importFlags struct {
	queue, prefix, zone string
	attempts            int
	system, dryRun      bool
}

func (a commands) importFile() *cobra.Command {
	var f importFlags
	cmd := a.Remote(&cobra.Command{
		Use:   "import FILE",
		Short: "Make schedules of the lines of a crontab",
		Long: `Make a schedule of each line of a crontab that has a command, all or none; - is stdin. Workers
run them:  rota worker --queue crontab --shell

Variables, comments, @daily and its like, CRON_TZ, RANDOM_DELAY and % are understood as
cron(5) says. Times are those of --zone where no CRON_TZ stands. With --system each line
names a user before the command, as in /etc/crontab: the tasks of root then stand in the queue
crontab-root, for a worker that root runs. What can't be done is refused, with the numbers of
all such lines: @reboot, and days of month and week that cron wants both to match.

A schedule is named after the program that its line runs and a hash of the whole command, so
that a file that is imported again finds its own: times that changed are changed, and schedules
that begin with --prefix and stand in it no more are told of, so give each file a prefix of its
own. A command that fails is not tried again (--max-attempts).`,
		Example: `  crontab -l | rota schedule import - --dry-run
  rota schedule import /etc/crontab --system --zone Europe/Berlin`,
		Args: app.Takes("FILE"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		return a.importCrontab(ctx, c, args[0], f)
	})
	s := cmd.Flags()
	s.StringVar(&f.queue, "queue", "crontab",
		"`queue` of the tasks; with --system its name, a - and the user's")
	s.StringVar(&f.prefix, "prefix", "crontab-", "how the schedules' `names` begin")
	s.StringVar(&f.zone, "zone", "", "`zone` of the times of day (default that of this machine)")
	s.IntVar(&f.attempts, "max-attempts", 1, "how often a command that fails is tried")
	s.BoolVar(&f.system, "system", false, "each line names a user before its command")
	s.BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

func (a commands) importCrontab(
	ctx context.Context, c *client.Client, file string, f importFlags,
) error {
	if err := app.CheckNames("queue", f.queue); err != nil {
		return err
	}
	if f.attempts < 1 {
		return usage.Errorf("--max-attempts must be at least 1")
	}
	if f.zone == "" {
		var err error
		if f.zone, err = localZone(a.Env); err != nil {
			return err
		}
	}
	if _, err := time.LoadLocation(f.zone); err != nil || f.zone == "Local" {
		return usage.Errorf("--zone %.40q is no time zone: write it as in Europe/Berlin", f.zone)
	}
	text, err := a.ReadFrom(file)
	if err != nil {
		return err
	}
	table, err := parseCrontab(string(text), f.zone, f.system)
	if err != nil {
		return usage.Errorf("%s: %s; nothing was changed", file,
			strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	changes, err := f.schedules(&table)
	if err != nil {
		return err
	}
	for _, note := range table.notes {
		fmt.Fprintf(a.Err, "%s: %s\n", file, note)
	}
	receipts := make([]view.ScheduleReceipt, len(changes))
	if !f.dryRun {
		if receipts, err = c.PutSchedules(ctx, changes); err != nil {
			return err
		}
		if err := a.tellStrays(ctx, c, f.prefix, changes); err != nil {
			return err
		}
	}
	return a.showImport(&table, changes, receipts, f.dryRun)
}

// schedules are the schedules that a crontab's lines become.
func (f *importFlags) schedules(table *crontab) ([]client.NamedChange, error) {
	var changes []client.NamedChange
	lines := map[string]int{}
	for i := range table.entries {
		e := &table.entries[i]
		name := e.name(f.prefix)
		for n := 2; lines[name] > 0; n++ { // the same command at another time
			name = fmt.Sprintf("%s-%d", e.name(f.prefix), n)
		}
		lines[name] = e.line
		queue := f.queue
		if f.system {
			queue += "-" + e.user
		}
		if err := errors.Join(
			app.CheckNames("schedule", name), app.CheckNames("queue", queue),
		); err != nil {
			return nil, err
		}
		changes = append(changes,
			client.NamedChange{Name: name, ScheduleChange: client.ScheduleChange{
				Cron: &e.when, Zone: &e.zone, Queue: &queue, Context: e.context(),
				MaxAttempts: &f.attempts, Jitter: &task.Jitter{Max: e.spread},
			}})
	}
	if len(changes) > limits.MaxSchedules {
		return nil, usage.Errorf("%s commands are more than the %s that can be imported at once",
			term.Count(len(changes)), term.Count(limits.MaxSchedules))
	}
	return changes, nil
}

// tellStrays tells of schedules that an earlier import made, as their names say, and that stand in
// the file no more.
func (a commands) tellStrays(
	ctx context.Context, c *client.Client, prefix string, changes []client.NamedChange,
) error {
	if prefix == "" {
		return nil
	}
	all, err := c.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if strings.HasPrefix(s.Name, prefix) &&
			!slices.ContainsFunc(changes, func(n client.NamedChange) bool {
				return n.Name == s.Name
			}) {
			fmt.Fprintf(a.Err,
				"%s begins with %s and stands in the file no more: rota schedule rm %s\n", s.Name,
				prefix, s.Name)
		}
	}
	return nil
}

// importedDoc is a line that was imported, in JSON.
type importedDoc struct {
	Line     int        `json:"line"`
	Schedule string     `json:"schedule"`
	Created  bool       `json:"created"`
	Cron     string     `json:"cron"`
	Zone     string     `json:"zone"`
	Queue    string     `json:"queue"`
	Command  string     `json:"command"`
	Next     term.Stamp `json:"next"`
}

func (a commands) showImport(
	table *crontab, changes []client.NamedChange, receipts []view.ScheduleReceipt, dryRun bool,
) error {
	doc := term.Page[importedDoc]{Items: make([]importedDoc, len(changes))}
	for i, n := range changes {
		e := &table.entries[i]
		next := receipts[i].Next.Time
		if dryRun {
			next = nextOf(e, n.Name, a.Now())
		}
		doc.Items[i] = importedDoc{
			e.line, n.Name, receipts[i].Created, e.when, e.zone, *n.Queue, e.Command,
			term.Stamp(next),
		}
	}
	return a.Show(doc, func() string {
		t := a.Table("#LINE", "SCHEDULE", "DUE", "NEXT", "QUEUE", "COMMAND")
		t.Below = true
		created := 0
		for i, d := range doc.Items {
			if d.Created {
				created++
			}
			next := time.Time(d.Next).In(ZoneOf(*changes[i].Zone)).Format(zoneForm)
			t.Add(fmt.Sprint(d.Line), d.Schedule, term.OneLine(d.Cron), next, d.Queue,
				term.OneLine(d.Command))
		}
		if dryRun {
			return t.String() +
				fmt.Sprintf("%s would be made\n", term.Plural(len(changes), "schedule"))
		}
		return t.String() +
			fmt.Sprintf("%s made, %s kept or changed\n", term.Plural(created, "schedule"),
				term.Count(len(changes)-created))
	})
}

// nextOf is when a line is due next.
func nextOf(e *cronEntry, name string, now time.Time) time.Time {
	s, err := cron.Parse(e.when, cron.Options{Zone: ZoneOf(e.zone), Name: name})
	if err != nil {
		return time.Time{} // it was parsed before
	}
	return s.Next(now)
}

// localZone is the name of this machine's time zone, UTC when it has none.
func localZone(env func(string) (string, bool)) (string, error) {
	link, _ := os.Readlink("/etc/localtime") // "" where there is none, or it is a file
	return zoneOfMachine(env, link, time.Local)
}

// zoneOfMachine is localZone of a machine where a link leads to its zone, and clocks go by local. A
// zone that is a file has no name: to go by UTC instead would shift all times in silence.
func zoneOfMachine(
	env func(string) (string, bool), link string, local *time.Location,
) (string, error) {
	name, given := env("TZ")
	if name = strings.TrimPrefix(name, ":"); !given {
		_, name, _ = strings.Cut(link, "zoneinfo/")
	}
	if _, err := time.LoadLocation(name); err == nil && name != "" {
		return name, nil
	}
	now := time.Now().In(local)
	_, offset := now.Zone()
	if start, end := now.ZoneBounds(); !given && (offset != 0 || !start.IsZero() || !end.IsZero()) {
		return "", usage.Errorf("this machine does not tell the name of its time zone: " +
			"say it with --zone, as in Europe/Berlin")
	}
	return "UTC", nil
}
