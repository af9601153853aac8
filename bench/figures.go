package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rotahq/rota/internal/measure"
)

// figuresVerb is the first argument that makes this program write docs/figures.md; `make figures`
// calls it.
const figuresVerb = "figures"

// section is a table of the page of figures that is measured at a time. Those without benchmarks
// are compared with peers.
type section struct {
	name     string
	only     string // benchmarks of `rota bench`
	postgres bool
}

func sections() []section {
	return []section{
		{"sqlite", "library,http,lone,latency,stages,stages-library", false},
		{"postgres", "http,library,lone,latency,stages,stages-library", true},
		{"size", "ready,idle,beats", false},
		{"schedules", "schedules", false},
		{"peers", "", false},
	}
}

// figures measures parts and writes them into pages.
type figures struct {
	config
	runs  int
	docs  string // folder of figures.md; README.md stands above it
	store string // "" = a cluster of its own
	only  string
}

// writeFigures is `bench figures`. Each part is written once it was measured: a later one that
// fails takes nothing of it along.
func writeFigures(args []string, progress io.Writer) (err error) {
	var f figures
	flags := flag.NewFlagSet(figuresVerb, flag.ContinueOnError)
	flags.IntVar(&f.runs, "runs", 3, "runs of each figure; the median counts")
	flags.DurationVar(&f.seconds, "seconds", 6*time.Second, "how long each run measures")
	flags.StringVar(&f.docs, "docs", "../docs", "`folder` of figures.md")
	flags.StringVar(&f.store, "store", "", "PostgreSQL `database` (default a server of its own)")
	flags.StringVar(&f.only, "only", "", "`parts` to measure, as sqlite,postgres (default all)")
	flags.SetOutput(progress)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return &usageError{err}
	case flags.NArg() > 0:
		return &usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	case f.runs < 1:
		return &usageError{fmt.Errorf("-runs %d: at least one", f.runs)}
	}
	chosen := sections()
	if f.only != "" {
		chosen = nil
		for name := range strings.SplitSeq(f.only, ",") {
			i := slices.IndexFunc(sections(), func(p section) bool { return p.name == name })
			if i < 0 {
				return &usageError{fmt.Errorf("--only %q: there is no such part", name)}
			}
			chosen = append(chosen, sections()[i])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// on a disk: the system's folder may be memory, which never waits for one
	folder, err := os.MkdirTemp(".", "rota-figures-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if f.dir, err = filepath.Abs(folder); err != nil {
		return err
	}
	// who is root runs PostgreSQL as another user, who has to get through
	if err = os.Chmod(f.dir, 0o755); err != nil {
		return err
	}
	if f.rota, err = build(ctx, f.dir); err != nil {
		return err
	}
	f.pairs = f.runs
	for _, p := range chosen {
		fmt.Fprintf(progress, "measure %s\n", p.name)
		table, err := f.measure(ctx, p, progress)
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		if err = publish(f.docs, map[string]string{p.name: table}); err != nil {
			return err
		}
	}
	return nil
}

// measure answers the text of a part: its conditions and its table.
func (f *figures) measure(
	ctx context.Context, p section, progress io.Writer,
) (_ string, err error) {
	head := fmt.Sprintf("%s, %d cores (%s), %s, medians of %d × %v",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), measure.Machine(),
		runtime.Version(), f.runs, f.seconds)
	if p.only == "" {
		rep, err := compare(ctx, f.config, progress)
		if err != nil {
			return "", err
		}
		return head + " on each side; " + strings.Join(rep.Peers, "; ") + ".\n\n" + peerTable(rep),
			nil
	}
	args := []string{
		"bench", "--dir", f.dir, "--only", p.only, "--repeat", strconv.Itoa(f.runs), "--seconds",
		f.seconds.String(), "-o", "json",
	}
	by := "rota bench --only "
	if p.postgres {
		store := f.store
		if store == "" {
			c, startErr := startCluster(ctx, f.dir)
			if startErr != nil {
				return "", startErr
			}
			defer func() { err = errors.Join(err, c.close()) }()
			version, err := postgresVersion(ctx)
			if err != nil {
				return "", err
			}
			store, head = c.url("postgres"), head+", PostgreSQL "+version
		} else {
			head += ", a PostgreSQL that was given"
		}
		args = append(args, "--store", store)
		by = "rota bench --store postgres://… --only "
	}
	cmd := exec.CommandContext(ctx, f.rota, args...)
	// it ends its own processes
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("rota bench --only %s: %w", p.only, err)
	}
	table, err := benchTable(out, by)
	return head + ".\n\n" + table, err
}

// benchTable is what `rota bench -o json` said as a table: a row for each benchmark.
func benchTable(out []byte, by string) (string, error) {
	var rep struct {
		Figures []struct {
			Name, What, Unit string
			Median, Target   float64
		}
	}
	if err := json.Unmarshal(out, &rep); err != nil {
		return "", fmt.Errorf("read what rota bench says: %w", err)
	}
	var b strings.Builder
	b.WriteString("| what | measured | aimed at | by |\n|---|---|---|---|\n")
	for i := 0; i < len(rep.Figures); {
		first := rep.Figures[i]
		var measured, aimed []string
		for ; i < len(rep.Figures) && rep.Figures[i].Name == first.Name; i++ {
			g := rep.Figures[i]
			measured = append(measured, rounded(g.Median)+" "+g.Unit)
			if g.Target != 0 {
				aimed = append(aimed, rounded(g.Target)+" "+g.Unit)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `%s%s` |\n", first.What, strings.Join(measured, "; "),
			strings.Join(aimed, "; "), by, first.Name)
	}
	return b.String(), nil
}

// peerAims is how many times as fast as a peer rota is to be, by row of the comparison.
var peerAims = map[string]int{"batch": 20, "lone": 2, "postgres": 8}

// peerTable is a comparison as a table: of tasks/s, and of the CPU of all processes for a task.
func peerTable(rep report) string {
	var b strings.Builder
	b.WriteString("| what | measured | aimed at | by |\n|---|---|---|---|\n")
	for _, r := range rep.Rows {
		aimed := ""
		if aim := peerAims[r.Name]; aim > 0 {
			aimed = fmt.Sprintf("%d ×", aim)
		}
		fmt.Fprintf(&b, "| %s, beside %s | %.1f ×; by CPU %.1f ×, %s µs/task to %s | %s | "+
			"`cd bench && go run . --only %s` |\n", r.What, r.Peer.Name, r.Ratio.Median,
			r.CPU.Median, rounded(r.Rota.CPU.Median), rounded(r.Peer.CPU.Median), aimed, r.Name)
	}
	return b.String()
}

// rounded is a figure with three digits, as 188,000, 21.4 or 0.085.
func rounded(v float64) string {
	digits := 3 - len(strconv.FormatFloat(math.Trunc(math.Abs(v)), 'f', 0, 64)) // behind the point
	if v == 0 || math.Abs(v) >= 1 {
		scale := math.Pow10(digits)
		v = math.Round(v*scale) / scale
	} else {
		digits = 3
	}
	whole, rest, _ := strings.Cut(strconv.FormatFloat(v, 'f', max(digits, 0), 64), ".")
	if rest = strings.TrimRight(rest, "0"); rest != "" {
		rest = "." + rest
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + rest
}

// publish puts tables between their marks in figures.md, and in the pages that carry copies. All
// pages are made before one is written.
func publish(docs string, tables map[string]string) error {
	names, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		return err
	}
	names = append(names, filepath.Join(docs, "..", "README.md"))
	pages := make(map[string][]byte)
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("publish figures: %w", err)
		}
		for part, table := range tables {
			begin, end := fmt.Appendf(nil, "<!-- figures: %s -->\n", part), []byte("<!-- end -->")
			before, rest, found := bytes.Cut(page, begin)
			if !found {
				if filepath.Base(name) == "figures.md" {
					return fmt.Errorf("publish figures: %s has no line %q", name, begin)
				}
				continue
			}
			_, after, found := bytes.Cut(rest, end)
			if !found {
				return fmt.Errorf("publish figures: %s has no %q after %q", name, end, begin)
			}
			page = bytes.Join([][]byte{before, begin, []byte(table), end, after}, nil)
			pages[name] = page
		}
	}
	for name, page := range pages {
		if err := os.WriteFile(name+".new", page, 0o644); err != nil {
			return fmt.Errorf("publish figures: %w", err)
		}
	}
	for name := range pages {
		if err := os.Rename(name+".new", name); err != nil {
			return fmt.Errorf("publish figures: %w", err)
		}
	}
	return nil
}
