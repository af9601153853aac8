package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/place"
)

// scriptEvent is one event of a script.
type scriptEvent struct {
	step     int
	text     string // without the step
	place    string // where it stands, for messages
	verb     string
	args     []string
	number   int        // of replicas
	capacity place.Load // of resize
}

// workers are the arguments that name workers.
func (e scriptEvent) workers() []string {
	if e.verb == "resize" {
		return e.args[:1]
	}
	return e.args
}

// verbs are what can happen, and what each takes: so many words, or more if that is negative.
var verbs = map[string]int{
	"kill": -1, "join": 1, "drain": -1, "undrain": -1, "resize": 2, "add": 1, "remove": -1,
	"replicas": 1,
}

// parseScript reads events as STEP: EVENT, parted by semicolons or lines; # begins a comment. They
// come in order of their steps.
func parseScript(text, source string) ([]scriptEvent, error) {
	var events []scriptEvent
	n := 0
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for piece := range strings.SplitSeq(line, ";") {
			piece = strings.TrimSpace(piece)
			if piece == "" {
				continue
			}
			n++
			e, err := parseEvent(piece)
			if err != nil {
				return nil, usage.Errorf("%s, event %d (%q): %v", source, n, piece, err)
			}
			e.place = fmt.Sprintf("%s, event %d (%q)", source, n, piece)
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(x, y scriptEvent) int { return cmp.Compare(x.step, y.step) })
	return events, nil
}

func parseEvent(text string) (e scriptEvent, err error) {
	step, rest, ok := strings.Cut(text, ":")
	words := strings.Fields(rest)
	if e.step, err = strconv.Atoi(strings.TrimSpace(step)); !ok || err != nil || e.step < 0 ||
		len(words) == 0 {
		return e, errors.New("want STEP: EVENT with a step from 0, as in 3: kill w1")
	}
	e.text, e.verb, e.args = strings.Join(words, " "), words[0], words[1:]
	takes, known := verbs[e.verb]
	switch {
	case !known:
		return e, fmt.Errorf(
			"no event %q; there are add, drain, join, kill, remove, replicas, resize, undrain",
			e.verb,
		)
	case takes < 0 && len(e.args) == 0:
		return e, fmt.Errorf("%s needs names", e.verb)
	case takes >= 0 && len(e.args) != takes:
		return e, fmt.Errorf("%s takes %s, not %d", e.verb, term.Plural(takes, "word"), len(e.args))
	}
	switch e.verb {
	case "join":
		_, err = ParseWorkers(e.args[0])
	case "add":
		_, err = parseJobs(e.args[0], place.Unit)
	case "resize":
		e.capacity, err = parseLoad(e.args[1])
	case "replicas":
		if e.number, err = strconv.Atoi(e.args[0]); err != nil || e.number < 1 ||
			e.number > place.MaxReplicas {
			err = fmt.Errorf("replicas %q: want 1 to %d", e.args[0], place.MaxReplicas)
		}
	}
	return e, err
}

// jobSpec is a number of jobs of the same load.
type jobSpec struct {
	count int
	load  place.Load
}

// parseJobs reads jobs as COUNT[xLOAD], more of them behind commas.
func parseJobs(text string, load place.Load) (specs []jobSpec, err error) {
	for piece := range strings.SplitSeq(text, ",") {
		spec := jobSpec{load: load}
		times, each, loaded := strings.Cut(piece, "x")
		if spec.count, err = strconv.Atoi(times); err != nil || spec.count < 0 ||
			spec.count > maxMadeUpJobs {
			return nil, usage.Errorf(
				"jobs %q: want COUNT[xLOAD] with a count of 0 to %d, as in 900 or 100x5", piece,
				maxMadeUpJobs,
			)
		}
		if loaded {
			if spec.load, err = parseLoad(each); err != nil {
				return nil, usage.Errorf("jobs %q: %v", piece, err)
			}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// maxMadeUpJobs is how many jobs alike can be thought of.
const maxMadeUpJobs = 1_000_000

func parseLoad(text string) (place.Load, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: want a number, as in 2.5", text)
	}
	return place.ParseLoad(f)
}

// madeUp is the cluster that the flags describe.
func (f Config) madeUp() (*simulation, error) {
	if len(f.Workers) == 0 || f.Jobs == "" {
		return nil, usage.Errorf("simulate needs --workers and --jobs, or --live GROUP")
	}
	if f.Spread != "zone" && f.Spread != "worker" {
		return nil, usage.Errorf("--spread %q: want zone or worker", f.Spread)
	}
	if f.Replicas < 1 || f.Replicas > place.MaxReplicas {
		return nil, usage.Errorf("--replicas must be 1 to %d", place.MaxReplicas)
	}
	if f.Moves < 0 || f.New < 0 {
		return nil, usage.Errorf("--moves and --new must be at least 0")
	}
	load, err := place.ParseLoad(f.Load)
	if err != nil {
		return nil, usage.Errorf("--load: %v", err)
	}
	selector, err := ParseSelector(f.Selector)
	if err != nil {
		return nil, err
	}
	s := &simulation{load: load, policy: place.Policy{
		Replicas: f.Replicas, Selector: selector, Zones: f.Spread == "zone", Moves: orNone(f.Moves),
		New: orNone(f.New),
	}}
	for _, text := range f.Workers {
		if err := s.join(text); err != nil {
			return nil, err
		}
	}
	return s, s.add(f.Jobs)
}

// orNone is n as a policy takes it, where 0 means the default: none of moves, no limit of new
// replicas.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return min(n, math.MaxInt32)
}
