package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestReportsThatSayOtherThingsDiffer(t *testing.T) {
	wait := func(c task.ChildrenEnd) task.Outcome {
		return task.NextOn(task.Await{Children: c}, "ship", nil)
	}
	spawn := func(list ...task.Submission) task.Outcome {
		return task.Next("ship", nil).Spawning(list...)
	}
	mail := task.Submission{Queue: "mail"}
	seen := map[int64]string{}
	for name, o := range map[string]task.Outcome{
		"none":    task.Next("ship", nil),
		"signal":  task.NextOn(task.Await{Signal: "paid"}, "ship", nil),
		"other":   task.NextOn(task.Await{Signal: "sent"}, "ship", nil),
		"key":     task.NextOn(task.Await{Signal: "paid", Key: "7"}, "ship", nil),
		"shifted": task.NextOn(task.Await{Signal: "paid7"}, "ship", nil),
		"timeout": task.NextOn(task.Await{Signal: "paid", Timeout: time.Hour}, "ship", nil),
		"else": task.NextOn(task.Await{
			Signal: "paid", Timeout: time.Hour, Else: "x",
		}, "ship", nil),
		"elsewhere":  task.NextOn(task.Await{Signal: "paid"}, "pack", nil),
		"children":   wait(task.AllChildren),
		"first dead": wait(task.FirstDead),
		"spawn":      spawn(mail),
		"two":        spawn(mail, mail),
		"and wait":   wait(task.AllChildren).Spawning(mail),
		"orphan":     spawn(task.Submission{Queue: "mail", Orphan: true}),
		"stage":      spawn(task.Submission{Queue: "mail", Stage: "a"}),
		"shifts":     spawn(task.Submission{Queue: "maila"}),
		"context":    spawn(task.Submission{Queue: "mail", Context: json.RawMessage("1")}),
		"its key":    spawn(task.Submission{Queue: "mail", Key: "a"}),
		"group":      spawn(task.Submission{Queue: "mail", GroupKey: "a"}),
		"delay":      spawn(task.Submission{Queue: "mail", Delay: 1}),
		"priority":   spawn(task.Submission{Queue: "mail", Priority: 1}),
		"key for":    spawn(task.Submission{Queue: "mail", KeyFor: 1}),
		"attempts":   spawn(task.Submission{Queue: "mail", MaxAttempts: 1}),
		"its time":   spawn(task.Submission{Queue: "mail", Timeout: 1}),
		"start":      spawn(task.Submission{Queue: "mail", StartWithin: 1}),
		"due":        spawn(task.Submission{Queue: "mail", Due: time.UnixMilli(1)}),
		"meta":       spawn(task.Submission{Queue: "mail", Meta: map[string]string{"a": ""}}),
		"its value":  spawn(task.Submission{Queue: "mail", Meta: map[string]string{"a": "b"}}),
	} {
		h := store.ReportHash(o)
		if before, ok := seen[h]; ok {
			t.Errorf("%s has the hash of %s", name, before)
		}
		seen[h] = name
	}
}

// The hash of a report stands in stores: it may not change.
func TestReportsKeepTheHashThatTheyHad(t *testing.T) {
	signal := task.NextOn(task.Await{
		Signal: "paid", Key: "7", Timeout: time.Hour, Else: "x",
	}, "ship", nil)
	for _, test := range []struct {
		o    task.Outcome
		want int64
	}{
		{task.Next("ship", []int{1}), -8809264179156733473},
		{signal, -3178151329834567861},
	} {
		if got := store.ReportHash(test.o); got != test.want {
			t.Errorf("%+v: %d, want %d", test.o, got, test.want)
		}
	}
}

func TestAReportIsHashedOnTheStack(t *testing.T) {
	o := task.Next("ship", nil)
	if n := testing.AllocsPerRun(100, func() { store.ReportHash(o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
