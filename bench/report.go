package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/measure"
)

// report is what `-o json` prints.
type report struct {
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	Go      string    `json:"go"`
	Rota    string    `json:"rota"`
	Peers   []string  `json:"peers"` // and what they stand on, with versions
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"` // of submitting, in each run
	Pairs   int       `json:"pairs"`
	Rows    []result  `json:"rows"`
}

// result is a row as it was measured.
type result struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Rota  side   `json:"rota"`
	Peer  side   `json:"peer"`
	Ratio spread `json:"ratio"` // tasks/s of rota over those of its peer, of each pair of runs
	// CPU time per task of the peer over that of rota, of each pair of runs
	CPU spread `json:"cpu_ratio"`
}

// side is rota or its peer in a row.
type side struct {
	Name    string `json:"name"`
	Callers int    `json:"callers"`
	Batch   int    `json:"batch"`             // tasks per submission
	Clients int    `json:"clients,omitempty"` // that the callers share
	Linked  bool   `json:"linked,omitempty"`  // one process submits and works
	// in all runs together, warm-ups aside; all were counted done
	Tasks      int64  `json:"tasks"`
	Rate       spread `json:"tasks_per_second"`
	CPU        spread `json:"cpu_us_per_task"` // of all processes together
	Submitters spread `json:"cpu_us_per_task_submitters"`
	Server     spread `json:"cpu_us_per_task_server"` // 0 = there is none
	// PostgreSQL's processes; 0 = it has no part
	Database spread `json:"cpu_us_per_task_database"`
	Worker   spread `json:"cpu_us_per_task_worker"`
}

// spread is a figure in all its runs.
type spread struct {
	Median  float64   `json:"median"`
	Lowest  float64   `json:"lowest"`
	Highest float64   `json:"highest"`
	Runs    []float64 `json:"runs"`
}

func (s *spread) add(v float64) {
	s.Runs = append(s.Runs, v)
	sorted := slices.Sorted(slices.Values(s.Runs))
	n := len(sorted)
	s.Median, s.Lowest, s.Highest = (sorted[(n-1)/2]+sorted[n/2])/2, sorted[0], sorted[n-1]
}

func (s *side) add(m measurement) {
	s.Tasks += m.tasks
	s.Rate.add(m.rate())
	s.CPU.add(m.micros())
	for i, part := range []*spread{ofSubmitters: &s.Submitters, ofServer: &s.Server,
		ofDatabase: &s.Database, ofWorker: &s.Worker} {
		part.add(perTask(m.used[i], m.tasks))
	}
}

// rate is tasks per second.
func (m measurement) rate() float64 { return float64(m.tasks) / m.took.Seconds() }

// micros is the CPU time of all processes per task, in microseconds.
func (m measurement) micros() float64 {
	var sum time.Duration
	for _, d := range m.used {
		sum += d
	}
	return perTask(sum, m.tasks)
}

func perTask(d time.Duration, tasks int64) float64 {
	return float64(d.Microseconds()) / float64(tasks)
}

// newReport is a report without figures: what is compared with rota, and on what.
func newReport(ctx context.Context, c config) (report, error) {
	rep := report{
		Machine: measure.Machine(), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Started: time.Now().UTC().Truncate(time.Second), Seconds: c.seconds.Seconds(),
		Pairs: c.pairs,
	}
	for _, r := range c.rows() {
		p, err := peerNamed(r.peer, "")
		if err != nil {
			return report{}, err
		}
		title, err := p.title(ctx)
		if err != nil {
			return report{}, err
		}
		if !slices.Contains(rep.Peers, title) {
			rep.Peers = append(rep.Peers, title)
		}
		rep.Rows = append(rep.Rows, result{
			Name: r.name, What: r.what,
			Rota: side{
				Name: "rota", Callers: r.rota.callers, Batch: r.rota.batch, Clients: r.rota.clients,
				Linked: r.rota.linked,
			},
			Peer: side{
				Name: r.peer, Callers: r.other.callers, Batch: r.other.batch,
				Clients: r.other.clients, Linked: r.other.linked,
			},
		})
	}
	return rep, nil
}

// conclude adds the ratios, pair by pair.
func (r *report) conclude() {
	for i := range r.Rows {
		row := &r.Rows[i]
		for pair := range row.Rota.Rate.Runs {
			row.Ratio.add(row.Rota.Rate.Runs[pair] / row.Peer.Rate.Runs[pair])
			row.CPU.add(row.Peer.CPU.Runs[pair] / row.Rota.CPU.Runs[pair])
		}
	}
}

// table is the report for people.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %s\n%s\n", r.Machine, r.Cores, r.Go, r.Rota)
	for _, p := range r.Peers {
		fmt.Fprintln(&b, p)
	}
	fmt.Fprintf(&b, "%d pairs of runs of %vs, rota and its peer in turns; CPU in µs per task\n",
		r.Pairs, r.Seconds)
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "\n%s: %s\n", row.Name, row.What)
		fmt.Fprintf(&b, "  %-6s %10s %10s %10s %8s %11s %8s %9s %8s %12s\n",
			"", "TASKS/S", "LOWEST", "HIGHEST", "CPU", "SUBMITTERS", "SERVER", "DATABASE", "WORKER",
			"TASKS")
		for _, s := range []side{row.Rota, row.Peer} {
			fmt.Fprintf(&b, "  %-6s %10.0f %10.0f %10.0f %8.1f %11.1f %8.1f %9.1f %8.1f %12d\n",
				s.Name, s.Rate.Median, s.Rate.Lowest, s.Rate.Highest,
				s.CPU.Median, s.Submitters.Median, s.Server.Median, s.Database.Median,
				s.Worker.Median, s.Tasks)
		}
		row.Ratio.ratios(&b, "ratio")
		row.CPU.ratios(&b, "by CPU")
	}
	return b.String()
}

// ratios is a line of the table.
func (s spread) ratios(w io.Writer, title string) {
	fmt.Fprintf(w, "  %-6s %9.1f× %9.1f× %9.1f×   pair by pair:", title, s.Median, s.Lowest,
		s.Highest)
	for _, ratio := range s.Runs {
		fmt.Fprintf(w, " %.1f", ratio)
	}
	fmt.Fprintln(w)
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	build, _ := debug.ReadBuildInfo() // nil without one: then nothing is found
	if build != nil {
		for _, m := range build.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// firstLine is the first line that a program prints.
func firstLine(ctx context.Context, path string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}
