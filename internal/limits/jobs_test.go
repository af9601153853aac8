package limits_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestGroupCheckNamesEverythingThatIsWrong(t *testing.T) {
	labels := map[string]string{}
	for i := range limits.MaxLabels + 1 {
		labels[fmt.Sprint(i)] = ""
	}
	group := func(change func(*task.Group)) task.Group {
		g := limits.DefaultGroup("g")
		change(&g)
		return g
	}
	source := func(s task.Source) task.Group {
		if s.Every == 0 {
			s.Every = time.Second
		}
		return group(func(g *task.Group) { g.Source = s })
	}
	for _, c := range []struct {
		name  string
		group task.Group
		want  []string
	}{
		{"the default", limits.DefaultGroup("g"), nil},
		{"the most", group(func(g *task.Group) {
			g.Replicas = limits.MaxReplicas
			g.Selector = map[string]string{strings.Repeat("k", 128): strings.Repeat("v", 256)}
			g.Spread = task.SpreadWorker
			g.Policy = task.JobPolicy{
				Moves: limits.MaxMoves, New: limits.MaxJobs, Penalty: time.Hour, Warmup: time.Hour,
			}
			g.Source.Every = limits.MaxDuration
			g.Silence, g.JobSilence = limits.MaxSilence, limits.MaxDuration
			g.Title = strings.Repeat("é", limits.MaxTitle/2)
			g.Owner = strings.Repeat("o", limits.MaxTitle)
		}), nil},
		{"the shortest silences", group(func(g *task.Group) {
			g.Silence, g.JobSilence = limits.MinSilence, limits.MinSilence
		}), nil},
		{"nothing moves, nobody is avoided", group(func(g *task.Group) {
			g.Policy = task.JobPolicy{New: 1}
		}), nil},
		{"a file", source(task.Source{Kind: task.SourceFile, Path: "/etc/jobs.json"}), nil},
		{"a file on Windows", source(task.Source{Kind: task.SourceFile, Path: `C:\jobs.txt`}), nil},
		{"a URL", source(task.Source{Kind: task.SourceURL, URL: "https://example.com/jobs?all"}),
			nil},
		{"a command",
			source(task.Source{Kind: task.SourceCommand, Command: []string{"ls", "", "a\nb"}}),
			nil},
		{"everything", task.Group{
			Name: "/", Replicas: 1001, Spread: "far",
			Selector: map[string]string{"": "", "k": "\n"}, Source: task.Source{
				Kind: "ftp", URL: "x",
			},
			Policy:     task.JobPolicy{Moves: -1, New: -1, Penalty: -1, Warmup: 2 * time.Hour},
			JobSilence: -time.Second, Title: "a\tb", Owner: strings.Repeat("o", 257),
		}, []string{
			`body.group: "/" ` + limits.NameRule,
			"body.replicas: must be 1 to 1000",
			`body.selector: "": names are 1 to 256, values at most 256 bytes of printable UTF-8`,
			`body.selector: "k": names are 1 to 256, values at most 256 bytes of printable UTF-8`,
			"body.spread: must be zone or worker",
			"body.source.url: only a source of kind url has it",
			"body.source.kind: must be api, file, url or command",
			"body.source.every: must be 1s to 876000h0m0s",
			"body.policy.moves_per_round: must be 0 (nothing moves but what must) to 1000000",
			"body.policy.new_per_round: must be 1 to 1000000",
			"body.policy.penalty: must be 0s to 1h0m0s", "body.policy.warmup: must be 0s to 1h0m0s",
			"body.silence: must be 3s to 24h0m0s", "body.job_silence: must be 3s to 876000h0m0s",
			"body.title: must be at most 256 bytes of printable UTF-8",
			"body.owner: must be at most 256 bytes of printable UTF-8",
		}},
		{"too many labels", group(func(g *task.Group) {
			g.Selector = labels
		}), []string{"body.selector: must be at most 64 labels"}},
		{"a file without a path", source(task.Source{Kind: task.SourceFile}),
			[]string{"body.source.path: a source of kind file needs it"}},
		{"a relative path", source(task.Source{Kind: task.SourceFile, Path: "jobs"}), []string{
			"body.source.path: must be an absolute path, the same on every node, of at most 4096 bytes"}},
		{"no URL", source(task.Source{Kind: task.SourceURL, URL: "file:///etc/passwd"}), []string{
			"body.source.url: must be an http or https URL of at most 4096 bytes"}},
		{"no host", source(task.Source{Kind: task.SourceURL, URL: "http://"}), []string{
			"body.source.url: must be an http or https URL of at most 4096 bytes"}},
		{"no command", source(task.Source{Kind: task.SourceCommand}),
			[]string{"body.source.command: a source of kind command needs it"}},
		{"a strange command",
			source(task.Source{Kind: task.SourceCommand, Command: []string{"", "a\x00"}}), []string{
				"body.source.command[0]: must be at most 4096 bytes of UTF-8 without NUL, and the first word not empty",
				"body.source.command[1]: must be at most 4096 bytes of UTF-8 without NUL, and the first word not empty"}},
		{"a long command",
			source(task.Source{Kind: task.SourceCommand, Command: make([]string, 101)}),
			[]string{"body.source.command: must have 1 to 100 words"}},
		{"a path of another kind", source(task.Source{Kind: task.SourceAPI, Path: "/x"}),
			[]string{"body.source.path: only a source of kind file has it"}},
	} {
		var e task.InvalidError
		limits.CheckGroup(&c.group, &e, "body")
		if diff := cmp.Diff(c.want, texts(e)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// texts are an error's places with what is wrong there.
func texts(e task.InvalidError) (all []string) {
	for _, f := range e.Fields {
		all = append(all, f.Location+": "+f.Message)
	}
	return all
}

func TestWrongJobsAreNamedByTheirIndices(t *testing.T) {
	jobs := []task.Job{
		{Name: "a", Load: task.MaxLoad, Spec: make(json.RawMessage, limits.MaxSpec)}, {Name: "/"},
		{Name: "a"}, {Name: "c", Load: -1},
		{Name: "d", Load: task.MaxLoad + 1, Spec: make(json.RawMessage, limits.MaxSpec+1)},
		{Name: "a"},
	}
	var e task.InvalidError
	limits.CheckJobs(&e, "body.jobs", jobs)
	want := []string{
		`body.jobs[1].job: "/" ` + limits.NameRule,
		`body.jobs[2].job: "a" is the name of [0] already`,
		"body.jobs[3].load: must be 0 to 1000000", "body.jobs[4].load: must be 0 to 1000000",
		"body.jobs[4].spec: is larger than 65536 bytes",
		`body.jobs[5].job: "a" is the name of [0] already`,
	}
	if diff := cmp.Diff(want, texts(e)); diff != "" {
		t.Error(diff)
	}
	e = task.InvalidError{}
	limits.CheckJobs(&e, "body", make([]task.Job, 10_000))
	if len(e.Fields) != limits.MaxFaults {
		t.Errorf("%d faults of 10,000 are named", len(e.Fields))
	}
}
