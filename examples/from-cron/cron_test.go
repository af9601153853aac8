package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
)

// A day of the program: it begins at midnight in UTC, which is one o'clock in Berlin.
func TestADay(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		var backedUp []string
		refreshed, fails := 0, 2
		handle(r, func(_ context.Context, database string) error {
			if fails--; fails >= 0 {
				return errors.New("the disk is full")
			}
			backedUp = append(backedUp, time.Now().UTC().Format("15:04 ")+database)
			return nil
		}, func(ctx context.Context) error {
			refreshed++
			if refreshed == 3 { // it takes longer than the time to the next two
				select {
				case <-ctx.Done():
				case <-time.After(25 * time.Minute):
				}
			}
			return nil
		})
		if _, err := r.PutQueue(t.Context(), refreshes.Queue,
			client.QueueChange{Timeout: new(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if err := plan(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Advance(3*time.Hour + 5*time.Minute)
		if !slices.Equal(backedUp, []string{"01:30 shop"}) {
			t.Errorf("backed up at %v", backedUp)
		}
		fires, _, err := r.Fires(t.Context(), "refresh", client.FireFilter{}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		of := map[task.FireOutcome]int{}
		for _, f := range fires {
			of[f.Outcome]++
		}
		if refreshed != 16 || of[task.FireFired] != 16 || of[task.FireSkipped] != 2 {
			t.Errorf("%d times refreshed; the fires are %v", refreshed, of)
		}
	})
}
