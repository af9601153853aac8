package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
)

// In pieces of seven, of which the last is less: each item is there once.
func TestWhatIsSplitIsJoined(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r, 7)
		got, err := r.Submit(t.Context(), split.New(Work{N: 25}))
		if err != nil {
			t.Fatal(err)
		}
		r.Advance(10 * time.Second)
		sum := 0
		for i := 1; i <= 25; i++ {
			if i != 13 {
				sum += i * i
			}
		}
		if sum != 5356 {
			t.Fatalf("the sum is %d", sum)
		}
		rotatest.RequireOutcome(t, r, got[0].ID,
			rota.Finish("sum 5356 of 24 squares, 1 failed"))
		n := 0
		for v, err := range client.All(func(cursor string) ([]task.View, string, error) {
			return r.Children(t.Context(), got[0].ID, "", cursor, 10)
		}) {
			if err != nil || !v.State.Final() || v.Queue != square.Queue {
				t.Errorf("%+v, %v", v, err)
			}
			n++
		}
		if n != 25 {
			t.Errorf("%d children", n)
		}
	})
}

func TestNothingIsSplitIntoNothing(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r, 7)
		got, err := r.Submit(t.Context(), split.New(Work{}))
		if err != nil {
			t.Fatal(err)
		}
		r.Advance(10 * time.Second)
		rotatest.RequireOutcome(t, r, got[0].ID, rota.Finish("sum 0 of 0 squares, 0 failed"))
	})
}

// The program as people start it.
func TestTheProgram(t *testing.T) {
	got, err := run(t.Context(), filepath.Join(t.TempDir(), "fanout.db"), 100)
	if want := `"sum 338181 of 99 squares, 1 failed"`; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
