//go:build chaos && unix

package chaos

import (
	"errors"
	"testing"
	"time"
)

// The database fails over again and again, with nodes, workers and submitters at work. Nothing
// acknowledged is lost, nothing is accepted twice, and since no node and no worker died, no
// hand-out is lost either.
func TestFailoversLoseNothingAndAcceptNothingTwice(t *testing.T) {
	w := newWorld(t)
	for range *failovers {
		time.Sleep(between(w.luck, 2*time.Second, 5*time.Second))
		w.play(0, w.failOver(w.luck))
		over, before := time.Now(), w.agreed.Load()
		w.await("submissions are acknowledged again", func() (err error) {
			if w.agreed.Load() == before {
				err = errors.New("none is")
			}
			return err
		})
		w.say("submissions are acknowledged again %v after there was a standby",
			time.Since(over).Round(100*time.Millisecond))
	}
	w.audit(conditions{OnlyStore: true})
}

// The database is away for longer than workers may be silent. They go on with what they run, and
// nothing is run again.
func TestAbsentDatabaseEndsNothing(t *testing.T) {
	w := newWorld(t)
	for _, away := range []fault{w.stopPrimary(w.luck), w.killPrimary(w.luck),
		w.stopStandby(w.luck)} {
		time.Sleep(between(w.luck, 4*time.Second, 6*time.Second))
		away.lasts = between(w.luck, 2*silence, 3*silence)
		w.play(0, away)
	}
	w.audit(conditions{OnlyStore: true})
}

// Commits that stand on one disk only are lost with it, and none of them was acknowledged: not by
// those who repeated it either.
func TestCommitsThatNoStandbyHasAreNotAcknowledged(t *testing.T) {
	w := newWorld(t)
	for range max(*failovers/3, 1) {
		time.Sleep(between(w.luck, 2*time.Second, 5*time.Second))
		w.play(0, w.desert(w.luck))
	}
	w.audit(conditions{})
}

// Nodes die one after the other. What ran for longer than about a second is not run again.
func TestOldHandoutsOutliveTheirNodes(t *testing.T) {
	w := newWorld(t)
	for range 6 {
		time.Sleep(between(w.luck, 2*time.Second, 4*time.Second))
		w.play(0, w.killNode(w.luck))
		w.awaitNodes()
	}
	v := w.audit(conditions{Known: time.Second + 2*nodeBeat, OnlyNodes: true})
	if v.Old == 0 {
		t.Error("no hand-out was old when a node died")
	}
}

// Everything goes wrong, two at a time.
func TestFaultsInPairsLoseNothingAndAcceptNothingTwice(t *testing.T) {
	w := newWorld(t)
	for began := time.Now(); time.Since(began) < *runFor; {
		one, two := w.pair(draws)
		w.play(between(w.luck, 0, 2*time.Second), one, two)
		time.Sleep(between(w.luck, 500*time.Millisecond, 3*time.Second))
	}
	w.audit(conditions{Known: time.Second + 2*nodeBeat})
}
