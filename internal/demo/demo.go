// Package demo is `rota demo`: it shows the whole of rota at work on real files. Run starts a node
// on a temporary store and worker processes, which are this program again (Work), submits a task
// for each file (walk.go), kills one of the workers on the way (run.go), and in the end reads every
// file itself and compares (check.go). What the workers do with a file is in file.go.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/child"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
)

const maxWorkers = 64

// Config is what the demo is told.
type Config struct {
	Folder  string // or a single file; "" = the current folder
	Workers int    // worker processes, 1 to 64
	// Files is how many are taken at most; 0 = all there are.
	Files int64
	// For is how long the demo lasts at least: when the files are done earlier, the schedule and
	// the job go on.
	For    time.Duration
	Keep   bool         // stay until ctx ends, and leave the store and the blob folder
	Output *term.Output // for the report, and for what happens on the way
}

// rootOf is what to walk: a folder or a single file, with links on the way to it resolved.
func rootOf(given string) (string, error) {
	given = cmp.Or(given, ".")
	root, err := filepath.Abs(given)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", given, client.ErrNotFound)
	}
	return root, err
}

// Report is the end of the demo, and its JSON.
type Report struct {
	Folder  string  `json:"folder"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Tasks   int64   `json:"tasks"`
	Done    int64   `json:"done"`
	Stages  int64   `json:"stages"`
	Reruns  int64   `json:"reruns"`
	Refused int64   `json:"refused_late_reports"`
	Blobs   int64   `json:"blobs"`
	Rate    float64 `json:"tasks_per_second"` // of RateTasks in RateTime
	// those done at their first hand-out of each stage
	RateTasks int64 `json:"rate_tasks"`
	// from their first hand-out to their last outcome, before the kill and after it
	RateTime   float64 `json:"rate_seconds"`
	Seconds    float64 `json:"seconds"`          // in all, with the demo's own waits
	Killed     string  `json:"killed,omitempty"` // the worker
	KilledAt   int64   `json:"killed_at"`        // tasks done when it was killed
	KilledOf   int64   `json:"killed_of"`        // files that were there when the demo began
	Unreadable int64   `json:"unreadable"`
	Changed    int64   `json:"changed"`
	Skipped    int64   `json:"skipped"`
	Wrong      int64   `json:"wrong"`
	Accounted  bool    `json:"accounted"`
	LeftOut    bool    `json:"left_out"` // there are more files than were taken

	DueTimes   int64    `json:"due_times"` // of the schedule
	Fired      int64    `json:"fired"`
	EachOnce   bool     `json:"each_once"` // each due time has its row, and no other has one
	PulsesDone int64    `json:"pulses_done"`
	JobOn      []string `json:"job_on"` // the workers on which the job ran, one after the other

	Store string   `json:"store,omitempty"` // when it was kept
	Notes []string `json:"notes"`
}

// Run runs the demo in a folder of its own, and leaves neither processes nor, unless asked to,
// files behind.
func Run(ctx context.Context, conf Config) (err error) {
	if conf.Workers < 1 || conf.Workers > maxWorkers {
		return usage.Errorf("--workers must be 1 to %d", maxWorkers)
	}
	root, err := rootOf(conf.Folder)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "rota-demo-*")
	if err != nil {
		return err
	}
	defer func() {
		if !conf.Keep {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	d := &demonstration{
		Output: conf.Output, workers: conf.Workers, files: conf.Files, lasts: conf.For,
		keep: conf.Keep, root: root, folder: folder, progress: conf.Output.Progress(),
	}
	defer d.stop()
	report, err := d.play(ctx)
	d.progress.Clear()
	if err != nil {
		return err
	}
	if !conf.Keep {
		d.stop() // before what it printed is read as the end
	}
	if err := conf.Output.Show(report, func() string {
		return text(conf.Output, report)
	}); err != nil {
		return err
	}
	if conf.Keep {
		d.say("The console stays at %s/ and the workers at work, until Ctrl-C", d.url)
		<-ctx.Done()
	}
	if !report.Accounted {
		return fmt.Errorf("%d of %d files are not accounted for",
			max(report.Wrong, report.Tasks-report.Done), report.Tasks)
	}
	return nil
}

// text is the table and what follows it.
func text(o *term.Output, r Report) string {
	t := o.Table("DEMO", "#", "")
	t.Add("files", term.Count(r.Files), term.OneLine(r.Folder))
	t.Add("bytes", term.Bytes(uint64(r.Bytes)), "")
	t.Add("tasks", term.Count(r.Tasks), fmt.Sprintf("%s done", term.Count(r.Done)))
	t.Add("stages run", term.Count(r.Stages), "read, digest, verify")
	t.Add("re-runs", term.Count(r.Reruns), "hand-outs that were lost, and handed out again")
	t.Add("refused late reports", term.Count(r.Refused),
		"of hand-outs that had become somebody else's")
	t.Add("contexts in the blob folder", term.Count(r.Blobs), "above 4 KiB")
	t.Add("tasks/s", term.Number(r.Rate), fmt.Sprintf(
		"%s tasks in %.3f s at work: first hand-out to last outcome, before the kill and after it",
		term.Count(r.RateTasks), r.RateTime))
	once := "each once"
	if !r.EachOnce {
		once = "NOT each once: see rota schedule audit " + pulses
	}
	t.Add("due times of a schedule", term.Count(r.DueTimes), fmt.Sprintf(
		"every %d s: %s fired, %s; %s done", every, term.Count(r.Fired), once,
		term.Plural(int(r.PulsesDone), "task")))
	t.Add("workers of a job", term.Count(len(r.JobOn)),
		"one after the other: "+term.OneLine(strings.Join(r.JobOn, ", ")))
	t.Add("seconds", fmt.Sprintf("%.1f", r.Seconds), "in all, with the demo's own waits")
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
		b.WriteString(term.Yellow("there was no file to account for") + "\n")
	case r.Accounted:
		b.WriteString(term.Green("every file accounted for") + "\n")
	default:
		b.WriteString(term.Red("not every file is accounted for") + "\n")
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
	return fmt.Sprintf(`Ask it from another terminal, with --server and the console's address while it stays, or
later, when the same store is served again:

  %[1]s serve --store %[2]s
  %[1]s queue ls
  %[1]s task ls --queue %[3]s
  %[1]s task show ID
`, rota, quoted("sqlite:"+store), queue)
}

// invocation is how this program can be called again: by its name where that finds it, else by its
// path. `go run` builds programs that are gone when they have ended.
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
	if strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:+@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// demonstration is one run of the demo.
type demonstration struct {
	*term.Output
	workers  int
	files    int64
	lasts    time.Duration
	keep     bool
	root     string
	folder   string
	progress *term.Progress
	said     time.Time // when the last plain line of progress was printed

	server   *child.Process
	url      string
	client   *client.Client
	crew     []*workerProcess
	killed   *workerProcess
	expected int64     // files that were there at the beginning
	hesitant time.Time // since when the first worker has been holding on to a task

	doneAtKill int64
	clockOn    []string // the workers on which the job ran
}

func (d *demonstration) store() string  { return filepath.Join(d.folder, "rota.db") }
func (d *demonstration) ledger() string { return filepath.Join(d.folder, "files.jsonl") }

// play does everything between the temporary folder's beginning and its end.
func (d *demonstration) play(ctx context.Context) (r Report, err error) {
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
	q, err := d.client.Queue(ctx, queue)
	if err != nil {
		return r, err
	}
	r = Report{
		Folder: d.root, Files: t.files, Bytes: t.bytes, Tasks: w.submitted.Load(),
		Done:   q.Counts.Done,
		Stages: t.stages, Reruns: t.reruns,
		RateTasks: t.steady, RateTime: t.atWork().Seconds(), Seconds: took.Seconds(),
		Unreadable: t.unreadable.count, Changed: t.changed.count,
		Skipped: w.special.count + w.closed.count, Wrong: t.wrong.count,
	}
	r.LeftOut = w.cut
	if err := d.account(ctx, &r); err != nil {
		return r, err
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
	if w.cut {
		notes = append(notes, fmt.Sprintf(
			"There are more files: the first %s were taken, --files 0 takes all",
			term.Count(w.seen)))
	}
	for _, part := range []struct {
		list
		what string
	}{
		{w.special, "skipped, no regular files"}, {w.closed, "folders that can't be read"},
		{t.unreadable, "unreadable, for the workers and here"},
		{t.changed, "changed while the demo ran"},
		{t.wrong, "NOT ACCOUNTED FOR"},
	} {
		if part.count == 0 {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s %s:", term.Count(part.count), part.what))
		for _, m := range part.members {
			notes = append(notes, "  "+m)
		}
		if more := part.count - int64(len(part.members)); more > 0 {
			notes = append(notes, fmt.Sprintf("  and %s more", term.Count(more)))
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
func (d *demonstration) say(format string, args ...any) {
	d.progress.Clear()
	fmt.Fprintf(d.Err, format+"\n", args...)
}

// show shows how far it is: as a bar on a terminal, elsewhere as a line every second. It shows no
// rate, which would have the waits around the kill in it.
func (d *demonstration) show(n, total int64, what string) {
	now := d.Now()
	share := -1.0
	if total > 0 {
		share = float64(n) / float64(total)
	}
	text := fmt.Sprintf("of %s files %s, workers alive: %d", term.Count(total), what, d.alive())
	if d.progress.Width > 0 {
		d.progress.Draw(now, share, term.Count(n)+" "+text)
		return
	}
	if now.Sub(d.said) < time.Second {
		return
	}
	d.said = now
	fmt.Fprintf(d.Err, "%s %s\n", term.Count(n), text)
}
