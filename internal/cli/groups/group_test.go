package groups

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
)

func TestGroupStandsInOneWord(t *testing.T) {
	for want, g := range map[string]client.Group{
		"well":    {Wanted: 2, Running: 2},
		"busy":    {Wanted: 2, Running: 1, Starting: 1},
		"failing": {Wanted: 2, Running: 1, Failed: 1},
		"short":   {Wanted: 2, Failed: 1, Pending: 1},
		"stale":   {Wanted: 2, Running: 2, Read: client.SourceRead{Error: "answered 500"}},
		"paused":  {Group: task.Group{Paused: true}, Pending: 1},
	} {
		if got := ansi.Strip(State(g)); got != want {
			t.Errorf("%+v is %s, want %s", g, got, want)
		}
	}
}

func TestPlanShowsTheLoadsThatChangeMostFirst(t *testing.T) {
	a := commands{&app.App{Output: term.Output{Out: new(bytes.Buffer), Now: time.Now}}}
	p := client.Plan{
		Before: map[string]float64{"a": 10, "b": 10, "gone": 20, "same": 1.5},
		After:  map[string]float64{"a": 12.25, "b": 40, "same": 1.5, "new": 3},
		Start:  make([]client.Planned, 12), Moves: 3, Rounds: 2, Budget: client.JobBudget{
			Text: "One can die.",
		},
		Stop: []client.Planned{{Job: "j", Replica: 1, Worker: "gone", Reason: "gone is\ngone"}},
	}
	want := `start      12 replicas, 3 of them by a move
stop       1 replica
pending    0 replicas
rounds     2
budget     One can die.

WORKER  BEFORE              AFTER                        CHANGE
b           10  █████          40  ████████████████████     +30
gone        20  ██████████      -                           -20
new          -                  3  ██                        +3
a           10  █████       12.25  ███████                +2.25
and 1 more

START  REPLICA  WORKER  REASON
             0
             0
and 10 more

STOP  REPLICA  WORKER  REASON
j           1  gone    gone is gone
`
	if got := ansi.Strip(a.planText(p, 2)); got != want {
		t.Errorf("plan =\n%s\nwant\n%s", got, want)
	}
	if got := ansi.Strip(a.planText(client.Plan{}, 10)); strings.Contains(got, "WORKER") {
		t.Errorf("an empty plan is\n%s", got)
	}
}

func TestJobLinesAreToldByReplica(t *testing.T) {
	for _, c := range []struct {
		log         jobLog
		json        bool
		stream      string
		out, errOut string
	}{
		{jobLog{replica: -1}, false, "stdout.0", "0| x\n", ""},
		{jobLog{replica: -1}, false, "rota", "", "x\n"},
		{jobLog{replica: 1}, false, "stdout.1", "x\n", ""},
		{jobLog{replica: 1}, false, "stdout.0", "", ""},
		{jobLog{replica: 1}, false, "rota", "", "x\n"},
		{jobLog{replica: -1}, false, "stderr.0", "", "0| x\n"},
		{jobLog{replica: -1}, true, "stderr.0",
			`{"time":null,"stream":"stderr.0","text":"x"}` + "\n", ""},
	} {
		var out, errOut bytes.Buffer
		a := commands{&app.App{Output: term.Output{Out: &out, Err: &errOut}}}
		if c.json {
			a.Format = "json"
		}
		err := a.printJobLine(c.log, task.LogLine{Stream: c.stream, Text: "x"})
		if err != nil || out.String() != c.out || errOut.String() != c.errOut {
			t.Errorf("%+v: %q and %q, %v", c, out.String(), errOut.String(), err)
		}
	}
}

func TestManyJobsAreAddedPieceByPieceAndReplacedAtOnceOrNotAtAll(t *testing.T) {
	var calls []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n := bytes.Count(body, []byte(`"job":`))
		calls = append(calls, fmt.Sprintf("%s %d", r.Method, n))
		fmt.Fprintf(w, `{"added":%d,"kept":1}`, n-1)
	}))
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	jobs := make([]task.Job, task.MaxJobChange+1)
	sum, err := changeJobs(t.Context(), c, "g", jobsFlags{add: true}, jobs)
	if want := []string{"POST 65536", "POST 34465"}; err != nil ||
		sum != (client.JobsChanged{Added: len(jobs) - 2, Kept: 2}) || !slices.Equal(calls, want) {
		t.Errorf("calls %q, sum %+v, %v", calls, sum, err)
	}
	calls = nil
	if _, err := changeJobs(
		t.Context(), c, "g", jobsFlags{}, jobs,
	); !errors.Is(err, usage.Err) || len(calls) > 0 {
		t.Errorf("too many are replaced by %q, %v", calls, err)
	}
	if sum, err := changeJobs(
		t.Context(), c, "g", jobsFlags{}, jobs[1:],
	); err != nil || sum.Added != task.MaxJobChange-1 ||
		!slices.Equal(calls, []string{"PUT 100000"}) {
		t.Errorf("calls %q, sum %+v, %v", calls, sum, err)
	}
}

func TestJobsTravelInPiecesThatAServerTakes(t *testing.T) {
	jobs := make([]task.Job, 2*task.MaxJobChange)
	if n := addable(jobs); n != 16<<20/256 {
		t.Errorf("%d small jobs in one call", n)
	}
	large := make([]task.Job, 1000)
	for i := range large {
		large[i].Spec = make([]byte, limits.MaxSpec)
	}
	if n := addable(large); n < 250 || n > 256 {
		t.Errorf("%d large jobs in one call", n)
	}
	if n := addable(jobs[:3]); n != 3 {
		t.Errorf("%d of 3 jobs in one call", n)
	}
}
