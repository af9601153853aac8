package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/internal/term"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/process"
	"github.com/spf13/cobra"
)

// symptom is one line of the doctor: what was looked at, how it is, and what to do about it.
type symptom struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, warn or fail
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"`
}

const (
	fine = "ok"
	warn = "warn"
	fail = "fail"
)

func (a commands) doctor() *cobra.Command {
	var store string
	cmd := a.Remote(&cobra.Command{
		Use:   "doctor",
		Short: "Check the server, this machine and the settings",
		Long: `Check what commonly goes wrong: is the server there and ready, do the clocks agree, has the
store's disk room and how fast does it sync, are there enough file descriptors; and show
the settings in force, without secrets. Each line is ok, warn or fail and says what to do.
Exits 1 when something failed.`,
		Example: `  rota doctor
  rota doctor --server http://10.0.0.5:7700 --store sqlite:/var/lib/rota/work.db -o json`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		symptoms := a.settingsSymptoms()
		symptoms = append(symptoms, a.serverSymptoms(ctx, c)...)
		symptoms = append(append(symptoms, checkDescriptors()), checkStore(store)...)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.Show(term.Page[symptom]{Items: symptoms}, func() string {
			return a.symptomTable(symptoms)
		}); err != nil {
			return err
		}
		if slices.ContainsFunc(symptoms, func(f symptom) bool { return f.Result == fail }) {
			return fmt.Errorf("not everything is well: see the lines that say %s", fail)
		}
		return nil
	})
	cmd.Flags().StringVar(&store, "store", "sqlite:rota.db",
		"the `store`, whose disk is checked if it is sqlite:FILE")
	return cmd
}

func (a commands) symptomTable(symptoms []symptom) string {
	t := a.Table("CHECK", "RESULT", "WHAT", "DO")
	t.Width = 0 // advice that is cut off is none
	for _, f := range symptoms {
		result := term.Green(f.Result)
		switch f.Result {
		case warn:
			result = term.Yellow(f.Result)
		case fail:
			result = term.Red(f.Result)
		}
		t.Add(f.Check, result, term.OneLine(f.Text), f.Do)
	}
	return t.String()
}

func (a commands) settingsSymptoms() []symptom {
	token := "none"
	if a.Token != "" {
		token = "given"
	}
	return []symptom{
		{"rota", fine,
			app.Version() + ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH, ""},
		{"settings", fine,
			"server " + strings.Join(a.Servers, " ") + ", access token " + token + ", config " +
				cmp.Or(a.Config, "none"), ""},
	}
}

// serverSymptoms looks at the server: there, ready, and by the same clock.
func (a commands) serverSymptoms(ctx context.Context, c *client.Client) []symptom {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.Healthy(ctx); err != nil {
		return []symptom{{"server", fail, a.Explain(ctx, err), "rota serve, or --server URL"}}
	}
	ready, err := c.Ready(ctx)
	if err != nil {
		return []symptom{{"server", fine, "answers", ""}, unread(err)}
	}
	if ready.Brief {
		return []symptom{{"server", fine, "answers", ""}, a.brief(ready)}
	}
	symptoms := []symptom{
		{"server", fine, "answers", ""},
		{"ready", fine, fmt.Sprintf("store %s, durability %s", ready.Store, ready.Durability), ""},
		{"clock", fine, fmt.Sprintf("the node's and the store's are %v apart", ready.ClockOffset),
			""},
	}
	if !ready.Ready {
		symptoms[1] = symptom{
			"ready", fail, "not ready: " + ready.Detail, "look at the server's log",
		}
	}
	if ready.Ready && ready.Age > 3*time.Second {
		symptoms[1].Result = warn
		symptoms[1].Do = "look at the store's machine: it is slow or hangs"
		symptoms[1].Text += fmt.Sprintf(", but the store was silent for %v", ready.Age)
	}
	if ready.ClockOffset.Abs() > time.Second {
		symptoms[2].Result = warn
		symptoms[2].Do = "set the clocks by NTP: due times are off by that much"
	}
	return symptoms
}

// brief is what a server says to whom it does not know.
func (a commands) brief(ready client.Readiness) symptom {
	f := symptom{"ready", fine, "ready; it says more to those with an access token", ""}
	if !ready.Ready {
		f = symptom{
			"ready", fail, "not ready; it says why to those with an access token",
			"look at the server's log",
		}
	}
	if a.Token != "" {
		if f.Result == fine {
			f.Result = warn
		}
		f.Text += ", and this one is not known there or may not read"
		f.Do = "give an access token of role viewer that stands in the server's --token-file, with --token or ROTA_TOKEN"
	}
	return f
}

// unread is what kept the doctor from asking the server how it is.
func unread(err error) symptom {
	f := symptom{"ready", fail, err.Error(), "look at the server's log"}
	switch {
	case errors.Is(err, client.ErrUnauthorized):
		f.Do = "give an access token that stands in the server's --token-file, with --token or ROTA_TOKEN"
	case errors.Is(err, client.ErrForbidden):
		f.Result, f.Do = warn, "this token's role may not ask; one of role viewer may"
	}
	return f
}

// checkStore looks at the disk of a SQLite store. A database has its own, which only its nodes
// reach.
func checkStore(store string) []symptom {
	if scheme, _, ok := strings.Cut(store, "://"); ok && strings.HasPrefix(scheme, "postgres") {
		return []symptom{
			{"store", fine,
				"a database: its disk is not looked at from here; the line ready says whether the server reaches it",
				""},
		}
	}
	folder := filepath.Dir(strings.TrimPrefix(store, "sqlite:"))
	return []symptom{checkDisk(folder), checkSync(folder)}
}

// checkDescriptors: a node needs one descriptor for each waiting worker.
func checkDescriptors() symptom {
	f := symptom{Check: "descriptors", Result: fine}
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return symptom{f.Check, warn, "can't be counted: " + err.Error(), ""}
	}
	limits, err := p.Rlimit()
	if err != nil {
		f.Text = "this system names no limit"
		return f
	}
	for _, l := range limits {
		if l.Resource != process.RLIMIT_NOFILE {
			continue
		}
		f.Text = fmt.Sprintf("%d files at a time", l.Soft)
		if l.Soft < 4096 {
			f.Result = warn
			f.Do = "ulimit -n 65536 before rota serve: each waiting worker needs one"
		}
	}
	return f
}

func checkDisk(folder string) symptom {
	usage, err := disk.Usage(folder)
	if err != nil {
		return symptom{
			"disk", fail, err.Error(), "create the store's folder, or name another with --store",
		}
	}
	f := symptom{"disk", fine, fmt.Sprintf("%s free in %s", term.Bytes(usage.Free), folder), ""}
	switch {
	case usage.Free < 256<<20:
		f.Result, f.Do = fail, "make room: a full disk refuses submissions"
	case usage.Free < 2<<30 || usage.UsedPercent > 95:
		f.Result, f.Do = warn, "make room before it is full"
	}
	return f
}

// checkSync measures what every acknowledged submission and report waits for.
func checkSync(folder string) symptom {
	took, err := measure.SyncTimes(folder, 100)
	if err != nil {
		return symptom{"sync", fail, err.Error(), "make the store's folder writable"}
	}
	p50, p99 := measure.Percentile(took, 50), measure.Percentile(took, 99)
	f := symptom{
		"sync", fine, fmt.Sprintf("p50 %v, p99 %v in %s", term.Round(p50), term.Round(p99), folder),
		"",
	}
	switch {
	case p50 < 20*time.Microsecond:
		f.Result = warn
		f.Do = "too fast to be true: does the disk ignore fsync? What is acknowledged may not survive a power cut"
	case p99 > 50*time.Millisecond:
		f.Result = warn
		f.Do = "slow: every submission and report waits for it; use a disk of its own"
	}
	return f
}
