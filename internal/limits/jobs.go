package limits

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// Limits on what comes from outside about groups and their jobs.
const (
	MaxJobs       = 1_000_000 // of one group
	MaxReplicas   = 1_000
	MaxSpec       = 64 << 10 // bytes
	MaxLabels     = 64
	MaxSourceSize = 64 << 20 // bytes that a source may say
)

// Limits on a group's configuration.
const (
	MaxMoves     = 1_000_000 // voluntary ones a round
	MaxPenalty   = time.Hour
	MaxWarmup    = time.Hour
	MaxArguments = 100  // of a source's command
	MaxArgument  = 4096 // bytes of one of them, of a path or a URL
	MaxFaults    = 100  // that are named of one list of jobs
)

// CheckGroup adds to e all that is wrong with a group's configuration, under location.
func CheckGroup(g *task.Group, e *task.InvalidError, location string) {
	if !ValidName(g.Name) {
		e.Add(location+".group", "%q %s", cut(g.Name), NameRule)
	}
	if g.Replicas < 1 || g.Replicas > MaxReplicas {
		e.Add(location+".replicas", "must be 1 to %d", MaxReplicas)
	}
	CheckLabels(e, location+".selector", g.Selector)
	if g.Spread != task.SpreadZone && g.Spread != task.SpreadWorker {
		e.Add(location+".spread", "must be %s or %s", task.SpreadZone, task.SpreadWorker)
	}
	checkSource(&g.Source, e, location+".source")
	checkPolicy(&g.Policy, e, location+".policy")
	checkDuration(e, location+".silence", g.Silence, MinSilence, MaxSilence)
	if g.JobSilence != 0 {
		checkDuration(e, location+".job_silence", g.JobSilence, MinSilence, MaxDuration)
	}
	checkPeople(g.Title, g.Owner, e, location)
}

// Bounds of a group's silences. A third of the shorter one is the time between two beats of its
// workers, and a worker must have time for three.
const (
	MinSilence = 3 * time.Second
	MaxSilence = 24 * time.Hour
)

func checkPolicy(p *task.JobPolicy, e *task.InvalidError, location string) {
	if p.Moves < 0 || p.Moves > MaxMoves {
		e.Add(location+".moves_per_round", "must be 0 (nothing moves but what must) to %d",
			MaxMoves)
	}
	if p.New < 1 || p.New > MaxJobs {
		e.Add(location+".new_per_round", "must be 1 to %d", MaxJobs)
	}
	checkDuration(e, location+".penalty", p.Penalty, 0, MaxPenalty)
	checkDuration(e, location+".warmup", p.Warmup, 0, MaxWarmup)
}

// checkSource wants what the kind needs, and nothing that another kind would need: whoever gave it
// meant something else.
func checkSource(s *task.Source, e *task.InvalidError, location string) {
	for _, field := range []struct {
		kind, name string
		given      bool
	}{
		{task.SourceFile, "path", s.Path != ""}, {task.SourceURL, "url", s.URL != ""},
		{task.SourceCommand, "command", len(s.Command) > 0},
	} {
		switch {
		case field.kind == s.Kind && !field.given:
			e.Add(location+"."+field.name, "a source of kind %s needs it", s.Kind)
		case field.kind != s.Kind && field.given:
			e.Add(location+"."+field.name, "only a source of kind %s has it", field.kind)
		}
	}
	switch s.Kind {
	case task.SourceAPI:
	case task.SourceFile:
		if s.Path != "" && (!absolute(s.Path) || !ValidText(s.Path, MaxArgument)) {
			e.Add(location+".path",
				"must be an absolute path, the same on every node, of at most %d bytes",
				MaxArgument)
		}
	case task.SourceURL:
		if u, err := url.Parse(s.URL); s.URL != "" &&
			(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
				!ValidText(s.URL, MaxArgument)) {
			e.Add(location+".url", "must be an http or https URL of at most %d bytes", MaxArgument)
		}
	case task.SourceCommand:
		if len(s.Command) > 0 { // that there is none was said already
			CheckCommand(e, location+".command", s.Command)
		}
	default:
		e.Add(location+".kind", "must be %s, %s, %s or %s", task.SourceAPI, task.SourceFile,
			task.SourceURL, task.SourceCommand)
	}
	checkDuration(e, location+".every", s.Every, time.Second, MaxDuration)
}

// CheckCommand adds to e all that is wrong with a program and its words.
func CheckCommand(e *task.InvalidError, location string, words []string) {
	if len(words) == 0 || len(words) > MaxArguments {
		e.Add(location, "must have 1 to %d words", MaxArguments)
		return
	}
	for i, word := range words {
		if i == 0 && word == "" || !validArgument(word) {
			e.Add(fmt.Sprintf("%s[%d]", location, i),
				"must be at most %d bytes of UTF-8 without NUL, and the first word not empty",
				MaxArgument)
		}
	}
}

// absolute tells whether a path is one on some system: which, only the node knows that reads it.
func absolute(path string) bool {
	drive := len(path) > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
	return drive || strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`)
}

// validArgument tells whether s may be a word of a command line.
func validArgument(s string) bool {
	return len(s) <= MaxArgument && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// CheckLabels adds to e all that is wrong with labels.
func CheckLabels(e *task.InvalidError, location string, labels map[string]string) {
	if len(labels) > MaxLabels {
		e.Add(location, "must be at most %d labels", MaxLabels)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == "" || !ValidText(k, MaxKey) || !ValidText(labels[k], MaxKey) {
			e.Add(location, "%q: names are 1 to %d, values at most %d bytes of printable UTF-8",
				cut(k), MaxKey, MaxKey)
		}
	}
}

// CheckJobs adds to e what is wrong with a list of jobs, by their indices; only the first MaxFaults
// are named. That specs are JSON is the affair of who reads them.
func CheckJobs(e *task.InvalidError, location string, jobs []task.Job) {
	first := make(map[string]int, len(jobs))
	until := len(e.Fields) + MaxFaults
	for i := range jobs {
		if len(e.Fields) >= until {
			e.Fields = e.Fields[:until]
			return
		}
		at := func(field string) string { return fmt.Sprintf("%s[%d].%s", location, i, field) }
		job := &jobs[i]
		if !ValidName(job.Name) {
			e.Add(at("job"), "%q %s", cut(job.Name), NameRule)
		} else if before, twice := first[job.Name]; twice {
			e.Add(at("job"), "%q is the name of [%d] already", cut(job.Name), before)
		} else {
			first[job.Name] = i
		}
		if job.Load < 0 || job.Load > task.MaxLoad {
			e.Add(at("load"), "must be 0 to %d", task.MaxLoad/task.Unit)
		}
		if len(job.Spec) > MaxSpec {
			e.Add(at("spec"), "is larger than %d bytes", MaxSpec)
		}
	}
}
