package store_test

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestReportsThatWaitForOtherThingsDiffer(t *testing.T) {
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
		"elsewhere": task.NextOn(task.Await{Signal: "paid"}, "pack", nil),
	} {
		h := store.ReportHash(o)
		if before, ok := seen[h]; ok {
			t.Errorf("%s has the hash of %s", name, before)
		}
		seen[h] = name
	}
}

// The hash of a report stands in stores: it may not change.
func TestReportsWithoutAWaitKeepTheirHash(t *testing.T) {
	if got := store.ReportHash(task.Next("ship", []int{1})); got != -8809264179156733473 {
		t.Errorf("%d", got)
	}
}
