package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
)

const maxDemoWorkers = 64

// demoFlags are what `rota demo` was told.
type demoFlags struct {
	workers int
	keep    bool
}

func (a *app) demo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "See the whole of it at work on real files",
		Long: `See the whole of it at work: start a node on a temporary store and some worker processes,
and submit one task for each file under DIR (default: the current directory). A task has
three stages: read takes the file's size and a digest of each chunk, digest takes its
SHA-256, verify reads it once more and compares. What was found travels in the task's
context; that of a larger file goes to the blob folder.

A third of the files is submitted first, and one more. When that third is done, the worker that
holds on to the one more gets SIGKILL. Another takes its place, the rest is submitted, and the lost
task is handed out again after 3 s of silence. The rate leaves these waits out: it counts the tasks
that were never lost, from the first hand-out to the last outcome before the kill, and likewise
after it.

In the end every file is read once more, by the demo itself, and compared with what the
server has of it. Only then it says that every file is accounted for; else it lists those
that are not, and the exit code is 1. Links are not followed; files that can't be read, or
that change meanwhile, are listed as such.`,
		Example: `  rota demo
  rota demo /usr/share/doc --workers 5
  rota demo --keep ~/photos        # leave the store for a look around`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("demo does not take %q: one folder at a time", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.workers < 1 || f.workers > maxDemoWorkers {
				return usagef("--workers must be 1 to %d", maxDemoWorkers)
			}
			root, err := demoRoot(args)
			if err != nil {
				return err
			}
			return a.runDemo(cmd.Context(), f, root)
		},
	}
	s := cmd.Flags()
	s.AddFlag(a.shared.Lookup("output"))
	s.IntVar(&f.workers, "workers", 3, "worker processes")
	s.BoolVar(&f.keep, "keep", false, "leave the store and the blob folder, and say where they are")
	return cmd
}

// demoRoot is what to walk: a folder or a single file, with links on the way to it resolved.
func demoRoot(args []string) (string, error) {
	given := "."
	if len(args) == 1 {
		given = args[0]
	}
	root, err := filepath.Abs(given)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", given, client.ErrNotFound)
	}
	return root, err
}

// demoReport is the end of the demo, and its JSON.
type demoReport struct {
	Folder     string   `json:"folder"`
	Files      int64    `json:"files"`
	Bytes      int64    `json:"bytes"`
	Tasks      int64    `json:"tasks"`
	Done       int64    `json:"done"`
	Stages     int64    `json:"stages"`
	Reruns     int64    `json:"reruns"`
	Refused    int64    `json:"refused_late_reports"`
	Blobs      int64    `json:"blobs"`
	Rate       float64  `json:"tasks_per_second"` // of RateTasks in RateTime
	RateTasks  int64    `json:"rate_tasks"`       // those done at their first hand-out of each stage
	RateTime   float64  `json:"rate_seconds"`     // from their first hand-out to their last outcome, before the kill and after it
	Seconds    float64  `json:"seconds"`          // in all, with the demo's own waits
	Killed     string   `json:"killed,omitempty"` // the worker
	KilledAt   int64    `json:"killed_at"`        // tasks done when it was killed
	KilledOf   int64    `json:"killed_of"`        // files that were there when the demo began
	Unreadable int64    `json:"unreadable"`
	Changed    int64    `json:"changed"`
	Skipped    int64    `json:"skipped"`
	Wrong      int64    `json:"wrong"`
	Accounted  bool     `json:"accounted"`
	Store      string   `json:"store,omitempty"` // when it was kept
	Notes      []string `json:"notes"`
}

// runDemo runs the demo in a folder of its own, and leaves neither processes nor, unless asked to, files behind.
func (a *app) runDemo(ctx context.Context, f demoFlags, root string) (err error) {
	folder, err := os.MkdirTemp("", "rota-demo-*")
	if err != nil {
		return err
	}
	defer func() {
		if !f.keep {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	d := &demoRun{app: a, demoFlags: f, root: root, folder: folder, progress: a.newProgress()}
	report, err := d.run(ctx)
	d.progress.clear()
	if err != nil {
		return err
	}
	if err := a.show(report, func() string { return a.demoText(report) }); err != nil {
		return err
	}
	if !report.Accounted {
		return fmt.Errorf("%d of %d files are not accounted for", max(report.Wrong, report.Tasks-report.Done), report.Tasks)
	}
	return nil
}

// demoText is the table and what follows it.
func (a *app) demoText(r demoReport) string {
	t := a.newTable("DEMO", "#", "")
	t.add("files", count(r.Files), oneLine(r.Folder))
	t.add("bytes", bytesText(uint64(r.Bytes)), "")
	t.add("tasks", count(r.Tasks), fmt.Sprintf("%s done", count(r.Done)))
	t.add("stages run", count(r.Stages), "read, digest, verify")
	t.add("re-runs", count(r.Reruns), "hand-outs that were lost, and handed out again")
	t.add("refused late reports", count(r.Refused), "of hand-outs that had become somebody else's")
	t.add("contexts in the blob folder", count(r.Blobs), "above 4 KiB")
	t.add("tasks/s", number(r.Rate), fmt.Sprintf(
		"%s tasks in %.3f s at work: first hand-out to last outcome, before the kill and after it",
		count(r.RateTasks), r.RateTime))
	t.add("seconds", fmt.Sprintf("%.1f", r.Seconds), "in all, with the waits around the kill")
	var b strings.Builder
	b.WriteString(t.String() + "\n")
	for _, note := range r.Notes {
		b.WriteString(note + "\n")
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	switch {
	case r.Accounted && r.Files == 0:
		b.WriteString(yellow("there was no file to account for") + "\n")
	case r.Accounted:
		b.WriteString(green("every file accounted for") + "\n")
	default:
		b.WriteString(red("not every file is accounted for") + "\n")
	}
	b.WriteString("\n" + lookFurther(invocation(os.Args[0]), r.Store))
	return b.String()
}

// lookFurther says how to go on: with the store that was kept, else from a fresh start.
func lookFurther(rota, store string) string {
	if store == "" {
		return fmt.Sprintf(`The demo's store was removed; --keep leaves it for a look around. To begin your own:

  %[1]s serve
  %[1]s worker --queue greet -- sh -c 'cat; echo'
  %[1]s submit greet --context '"hello"' --wait
`, rota)
	}
	return fmt.Sprintf(`To look further, serve the same store again, and ask it from another terminal:

  %[1]s serve --store %[2]s
  %[1]s queue ls
  %[1]s task ls --queue %[3]s
  %[1]s task show ID
`, rota, quoted("sqlite:"+store), demoQueue)
}

// invocation is how this program can be called again: by its name where that finds it, else by its path. `go run` builds
// programs that are gone when they have ended.
func invocation(arg0 string) string {
	self, err := os.Executable()
	if err != nil {
		return arg0
	}
	if found, err := exec.LookPath("rota"); err == nil {
		if same, err := sameFile(found, self); err == nil && same {
			return "rota"
		}
	}
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "go run ./cmd/rota"
	}
	return quoted(arg0)
}

func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), err
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:+@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// demoRun is one run of the demo.
type demoRun struct {
	*app
	demoFlags
	root     string
	folder   string
	progress *progress
	said     time.Time // when the last plain line of progress was printed

	server   *child
	url      string
	client   *client.Client
	crew     []*demoChild
	killed   *demoChild
	expected int64     // files that were there at the beginning
	hesitant time.Time // since when the first worker has been holding on to a task

	doneAtKill int64
}

func (d *demoRun) store() string  { return filepath.Join(d.folder, "rota.db") }
func (d *demoRun) ledger() string { return filepath.Join(d.folder, "files.jsonl") }

// run does everything between the temporary folder's beginning and its end.
func (d *demoRun) run(ctx context.Context) (r demoReport, err error) {
	defer d.stop()
	if err := d.serve(ctx); err != nil {
		return r, err
	}
	w, took, err := d.work(ctx)
	if err != nil {
		return r, err
	}
	t, err := d.check(ctx, w.submitted.Load())
	if err != nil {
		return r, err
	}
	q, err := d.client.Queue(ctx, demoQueue)
	if err != nil {
		return r, err
	}
	d.stop() // the workers' last counts are in
	r = demoReport{
		Folder: d.root, Files: t.files, Bytes: t.bytes, Tasks: w.submitted.Load(), Done: q.Counts.Done,
		Stages: t.stages, Reruns: t.reruns,
		RateTasks: t.steady, RateTime: t.atWork().Seconds(), Seconds: took.Seconds(),
		Unreadable: t.unreadable.count, Changed: t.changed.count, Skipped: w.special.count + w.closed.count, Wrong: t.wrong.count,
	}
	r.Rate = float64(r.RateTasks) / max(r.RateTime, 1e-3) // the server's times are in milliseconds
	for _, c := range d.crew {
		r.Refused += c.last().Refused
	}
	if d.killed != nil {
		r.Killed, r.KilledAt, r.KilledOf = d.killed.name, d.doneAtKill, d.expected
	}
	if r.Blobs, err = countFiles(d.store() + ".blobs"); err != nil {
		return r, err
	}
	if d.keep {
		r.Store = d.store()
	}
	r.Accounted = t.wrong.count == 0 && t.files == r.Tasks && r.Done == r.Tasks
	r.Notes = notesOf(w, t)
	return r, nil
}

// notesOf lists what is not like the rest, the worst last.
func notesOf(w *walker, t *totals) []string {
	notes := []string{}
	for _, part := range []struct {
		list
		what string
	}{
		{w.special, "skipped, no regular files"}, {w.closed, "folders that can't be read"},
		{t.unreadable, "unreadable, for the workers and here"}, {t.changed, "changed while the demo ran"},
		{t.wrong, "NOT ACCOUNTED FOR"},
	} {
		if part.count == 0 {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s %s:", count(part.count), part.what))
		for _, m := range part.members {
			notes = append(notes, "  "+m)
		}
		if more := part.count - int64(len(part.members)); more > 0 {
			notes = append(notes, fmt.Sprintf("  and %s more", count(more)))
		}
	}
	return notes
}

// countFiles counts the files below a folder that need not be there.
func countFiles(folder string) (n int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && e.Type().IsRegular():
			n++
		}
		return err
	})
	return n, err
}

// say tells what happens.
func (d *demoRun) say(format string, args ...any) {
	d.progress.clear()
	fmt.Fprintf(d.err, format+"\n", args...)
}

// show shows how far it is: as a bar on a terminal, elsewhere as a line every second. It shows no rate,
// which would have the waits around the kill in it.
func (d *demoRun) show(n, total int64, what string) {
	now := d.now()
	share := -1.0
	if total > 0 {
		share = float64(n) / float64(total)
	}
	text := fmt.Sprintf("of %s files %s, workers alive: %d", count(total), what, d.alive())
	if d.progress.width > 0 {
		d.progress.draw(now, share, count(n)+" "+text)
		return
	}
	if now.Sub(d.said) < time.Second {
		return
	}
	d.said = now
	fmt.Fprintf(d.err, "%s %s\n", count(n), text)
}
