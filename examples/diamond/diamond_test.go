package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
)

func TestResultsFlowDown(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r)
		got, err := r.Submit(t.Context(), diamond("One two  THREE")...)
		if err != nil {
			t.Fatal(err)
		}
		r.Advance(10 * time.Second)
		rotatest.RequireOutcome(t, r, got[0].ID, rota.Finish("one two  three"))
		rotatest.RequireOutcome(t, r, got[1].ID, rota.Finish(3))
		rotatest.RequireOutcome(t, r, got[3].ID, rota.Finish("of a text: 3 words, 11 letters"))
	})
}

// What waits for one that fails is cancelled, and so is what waits for that.
func TestAFailureCancelsWhatWaitsForIt(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r)
		got, err := r.Submit(t.Context(), diamond(" ")...)
		if err != nil {
			t.Fatal(err)
		}
		r.Advance(10 * time.Second)
		for i, want := range []string{"", "after text: dead", "after text: dead",
			"after words: cancelled"} {
			v, err := r.Task(t.Context(), got[i].ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 && v.State != task.Dead || i > 0 && (v.State != task.Cancelled ||
				v.Error != want && v.Error != "after letters: cancelled") {
				t.Errorf("task %d is %s: %s, want %q", i, v.State, v.Error, want)
			}
		}
	})
}

// The program as people start it.
func TestTheProgram(t *testing.T) {
	got, err := run(t.Context(), filepath.Join(t.TempDir(), "diamond.db"), "the quick brown fox")
	if want := "of a text: 4 words, 16 letters"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
