package limits_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

const stands = "1pq3v0m7d2k5g10" // an id

// named makes tasks of "ref: other other".
func named(lines ...string) (tasks []task.Submission) {
	for _, line := range lines {
		ref, after, _ := strings.Cut(line, ":")
		tasks = append(tasks, task.Submission{
			Queue: "q", Ref: ref, After: strings.Fields(after),
		})
	}
	return tasks
}

// keyed makes tasks as named, all of which have the same key.
func keyed(lines ...string) []task.Submission {
	tasks := named(lines...)
	for i := range tasks {
		tasks[i].Key = "k"
	}
	return tasks
}

func TestRefsAreFoundWithinACall(t *testing.T) {
	id, err := task.ParseID(stands)
	if err != nil {
		t.Fatal(err)
	}
	e := &task.InvalidError{}
	got := limits.Others(named("d: b c", "b: a", "c: a "+stands, "a"), e, "at")
	want := [][]limits.Other{
		{{Place: 1}, {Place: 2}}, {{Place: 3}}, {{Place: 3}, {Place: -1, ID: id}}, nil,
	}
	if e.Err() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %v", e.Err(), got)
	}
	if got := limits.Others(named("a", "b"), e, "at"); got != nil || e.Err() != nil {
		t.Errorf("nobody waits: %v, %v", got, e.Err())
	}
}

func TestWhatCanNeverBeginIsRefused(t *testing.T) {
	long := make([]string, 12)
	for i := range long {
		long[i] = fmt.Sprintf("r%d: r%d", i, (i+1)%12)
	}
	for name, test := range map[string]struct {
		tasks []task.Submission
		want  string
	}{
		"a ref twice": {named("a", "b", "a"), `at[2].ref: "a" is that of task 0 already: ` +
			"give each task of a call its own"},
		"no ref": {named("a", ": a b"), `at[1].after[1]: "b" is neither the ref of a task in this ` +
			"call nor the id of one"},
		"itself": {named("a: a"), `at[0].after[0]: "a" is this task itself`},
		"twice": {named("a", ": a a"),
			`at[1].after[1]: "a" stands there twice, at 0 and 1`},
		"an id twice": {named(": " + stands + " " + stands),
			`at[0].after[1]: "` + stands + `" stands there twice, at 0 and 1`},
		"a circle of two": {named("x", "a: b", "b: a x"),
			`at[1].after: "a" waits for "b", "b" for "a": so none of them would ever begin`},
		"a circle behind others": {named("end: c", "a: c", "b: a", "c: b"), // end is outside of it
			`at[3].after: "c" waits for "b", "b" for "a", "a" for "c": so none of them would ` +
				"ever begin"},
		"a long circle": {named(long...), `at[0].after: "r0" waits for "r1", "r1" for "r2", ` +
			`"r2" for "r3", "r3" for "r4", "r4" for "r5", "r5" for "r6", "r6" for "r7", ` +
			`"r7" for "r8", "r8" for "r9", "r9" for "r10", and 2 more: so none of them would ` +
			"ever begin"},
		"the key of another one": {keyed("a", "b: a"), `at[1].key: "k" is that of task 0 in this ` +
			"queue, and one of the two waits for others: give each its own"},
	} {
		e := &task.InvalidError{}
		limits.Others(test.tasks, e, "at")
		if got := e.Error(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestACallWaitsForSoManyAtMost(t *testing.T) {
	tasks := named("a")
	for range limits.MaxAllAfter {
		tasks = append(tasks, task.Submission{Queue: "q", After: []string{"a"}})
	}
	e := &task.InvalidError{}
	if limits.Others(tasks, e, "at"); e.Err() != nil {
		t.Errorf("as many as may be: %v", e)
	}
	limits.Others(append(tasks, task.Submission{Queue: "q", After: []string{"a"}}), e, "at")
	if len(e.Fields) != 1 || e.Fields[0].Location != "at" {
		t.Errorf("one too many: %v", e)
	}
}

// A chain as long as a call is no circle, and is seen to be none at once.
func TestALongChainIsNoCircle(t *testing.T) {
	tasks := named("0")
	for i := range task.MaxSubmissions - 1 {
		tasks = append(tasks, named(fmt.Sprintf("%d: %d", i+1, i))...)
	}
	e := &task.InvalidError{}
	if others := limits.Others(tasks, e, "at"); e.Err() != nil || others[9999][0].Place != 9998 {
		t.Errorf("%v", e)
	}
}

func TestWhatATaskSaysOfOthersIsChecked(t *testing.T) {
	after := []string{"a"}
	for _, test := range []struct {
		task task.Submission
		want string
	}{
		{task.Submission{Ref: "a b 的", After: after, If: task.IfEnded, Key: "k"}, ""},
		{task.Submission{Ref: stands}, "at.ref: reads as the id of a task, " + stands +
			": give it another name"},
		{task.Submission{Ref: "a\n"}, "at.ref: must be at most 256 bytes of printable UTF-8"},
		{task.Submission{If: task.IfDone},
			"at.if: says how others have to end: name them in after"},
		{task.Submission{After: after, If: "dead"}, "at.if: must be done or ended"},
		{task.Submission{After: make([]string, 1001)}, "at.after: 1001 tasks are too many: at most " +
			"1000. Let some of them be waited for by a task in between"},
		{task.Submission{After: after, StartWithin: time.Hour}, "at.start_within: nobody knows when " +
			"a task begins that waits for others: leave start_within or after out"},
		{task.Submission{After: after, Unique: &task.Unique{Key: "k"}}, "at.unique: a task that " +
			"waits for others has no unique key: leave unique or after out, or give a key"},
	} {
		test.task.Queue = "q"
		e := &task.InvalidError{}
		limits.CheckSubmission(&test.task, e, "at")
		if got := e.Error(); got != test.want {
			t.Errorf("%+v: %q, want %q", test.task, got, test.want)
		}
	}
}
