package explain_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/explain"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

var update = flag.Bool("update", false, "write the stories' answers again")

var now = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func Example() {
	q := explain.Queue{Name: "mail", Counts: task.Counts{Ready: 12}}
	t := explain.Task{View: task.View{Queue: "mail", State: task.Ready, Attempt: 1}}
	for _, r := range explain.OfTask(t, q, now).Reasons {
		fmt.Println(r.Text)
		fmt.Println(r.Change)
	}
	// Output:
	// No worker takes tasks of queue mail.
	// rota worker --queue mail -- COMMAND
}

// The stories in testdata/stories.txt are paragraphs: facts, a line each, and after => what is
// told.
func TestStories(t *testing.T) {
	const file = "testdata/stories.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var again []string
	for _, story := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		given, want, _ := strings.Cut(story, "\n=>")
		want = strings.TrimSpace(want)
		got := strings.TrimSpace(tell(t, given))
		if got != want && !*update {
			t.Errorf("%s\n=>\n%s\nwant\n%s", given, got, want)
		}
		again = append(again, given+"\n=>\n"+got)
	}
	if *update {
		text := strings.Join(again, "\n\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tell reads facts and explains the task, or the queue when they say nothing of a task.
func tell(t *testing.T, given string) string {
	q := explain.Queue{Name: "mail", Silence: 15 * time.Second}
	of := explain.Task{}
	ofTask := false
	for _, line := range strings.Split(given, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		f := fields(rest)
		switch word {
		case "#":
		case "queue":
			q.Paused = f["paused"] != ""
			q.Counts = task.Counts{
				Ready: number(f["ready"]), Running: number(f["running"]), Waiting: number(f["waiting"]),
				Blocked: number(f["blocked"]),
			}
		case "worker":
			q.Workers = append(q.Workers, task.Worker{
				Name: f["name"], State: task.WorkerState(f["state"]), Queues: strings.Split(f["of"], ","),
				Capacity: float64(number(f["capacity"])), Running: int(number(f["runs"])),
				Free: int(number(f["free"])), Seen: now.Add(-duration(f["seen"])),
			})
		case "limits":
			q.At, q.Gate = now.UnixMicro(), gate(t, f)
		case "keys": // limits of each, and what is known of the keys
			q.PerKey, q.Fair = gate(t, f).Limits, f["fair"] != ""
			q.FullKeys = int(number(f["full"]))
		case "key": // of the task: how it stands beside such limits
			of.GroupKey, of.KeyAt = f["name"], now.UnixMicro()
			of.KeyGate = gate(t, f)
		case "missing":
			q.Missing = append(q.Missing, rest)
		case "task":
			ofTask = true
			of.ID = task.ID{Batch: 1 << 60}
			of.State, of.Attempt = task.State(f["state"]), int(max(number(f["attempt"]), 1))
			of.Due, of.Worker = now.Add(duration(f["due"])), f["worker"]
			of.Ahead.Tasks, of.Ahead.More = number(f["ahead"]), f["more"] != ""
			of.Usual, of.Away = duration(f["usual"]), f["away"]
		case "awaits":
			of.Awaits = &task.Awaits{Signal: f["signal"], Key: f["key"], Else: f["else"]}
			if f["until"] != "" {
				of.Awaits.Until = now.Add(duration(f["until"]))
			}
		case "children":
			of.Awaits.First = f["first"] != ""
			of.Children = &task.Children{
				Total: number(f["total"]), Done: number(f["done"]), Dead: number(f["dead"]),
			}
		case "others":
			of.Awaits = &task.Awaits{Others: true}
			of.After = make([]task.Prior, number(f["of"]))
			of.OthersOpen = int(number(f["open"]))
		case "other":
			o := explain.Other{Queue: f["queue"], Now: task.State(f["state"])}
			o.ID.Batch, o.Ref, o.If = 7<<32, f["ref"], task.Condition(f["if"])
			of.Others = append(of.Others, o)
		case "step":
			of.Steps = append(of.Steps, task.Step{Kind: kind(t, f["outcome"]), Error: f["error"]})
		default:
			t.Fatalf("%q is no fact", line)
		}
	}
	if ofTask {
		return written(explain.OfTask(of, q, now))
	}
	return written(explain.OfQueue(q))
}

// gate is how a queue or a key stands beside its limits now.
func gate(t *testing.T, f map[string]string) admission.Gate {
	conf := task.Queue{MaxRunning: int(number(f["max_running"])), Burst: int(number(f["burst"]))}
	if err := conf.Rate.UnmarshalText([]byte(f["rate"])); err != nil {
		t.Fatal(err)
	}
	return admission.Gate{
		Limits: admission.LimitsOf(&conf), Running: int(number(f["runs"])),
		Bucket: admission.Bucket{At: now.Add(-duration(f["rested"])).UnixMicro()},
	}
}

func written(e view.Explanation) string {
	var b strings.Builder
	b.WriteString(e.State)
	if !e.Starts.IsZero() {
		fmt.Fprintf(&b, ", starts in %v", e.Starts.Sub(now))
	}
	for _, r := range e.Reasons {
		fmt.Fprintf(&b, "\n%s: %s", r.Kind, r.Text)
		if !r.Until.IsZero() {
			fmt.Fprintf(&b, " Until in %v.", r.Until.Sub(now))
		}
		if r.Change != "" {
			fmt.Fprintf(&b, " [%s]", r.Change)
		}
	}
	return b.String()
}

// fields reads NAME=VALUE, and NAME alone; an underscore in a value stands for a space.
func fields(s string) map[string]string {
	f := map[string]string{}
	for _, word := range strings.Fields(s) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			value = "yes"
		}
		f[name] = strings.ReplaceAll(value, "_", " ")
	}
	return f
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func duration(s string) time.Duration {
	d, _ := time.ParseDuration(s)
	return d
}

func kind(t *testing.T, s string) (k task.Kind) {
	if err := k.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestFactsInAnyOrderTellTheSame(t *testing.T) {
	workers := []task.Worker{
		{Name: "a", State: task.WorkerActive, Queues: []string{"mail"}, Capacity: 2, Running: 2},
		{Name: "b", State: task.WorkerActive, Queues: []string{"mail"}, Capacity: 3, Running: 1,
			Free: 2},
		{Name: "c", State: task.WorkerDraining, Queues: []string{"mail"}, Capacity: 3},
	}
	of := explain.Task{View: task.View{State: task.Ready, Attempt: 1}, Usual: time.Second}
	of.Ahead.Tasks = 9
	first := explain.OfTask(of, explain.Queue{Name: "mail", Workers: workers}, now)
	for range len(workers) {
		workers = append(workers[1:], workers[0])
		again := explain.OfTask(of, explain.Queue{Name: "mail", Workers: workers}, now)
		if written(first) != written(again) {
			t.Errorf("got %s, want %s", written(again), written(first))
		}
	}
}
