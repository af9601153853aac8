package dispatch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A worker beats at one node and may hold tasks whose spans another node holds: that of a node that
// died, until then the worker's own, or one that it left. The node that hears the worker reports
// it alive in the store, and the node that waits for its reports asks there before it takes its
// silence for death. Both cost nothing while every worker beats where its tasks are held.

const (
	// AlivePrefix begins the leases of workers that were reported alive. Nobody needs one that has
	// ended.
	AlivePrefix = "alive/"
	// aliveFor is how long a sign of life stands in the store: longer than any limit that it
	// could matter to.
	aliveFor = 10 * time.Minute
	// anyNode holds the reports: whichever node hears a worker may make them, and none owns them.
	anyNode = "any"
)

// noteRemote notes whether a worker's beat named hand-outs that another node holds.
func (w *worker) noteRemote(known map[handKey]task.Action) {
	w.remote = false
	for _, order := range known {
		w.remote = w.remote || order == task.ActionContinue
	}
}

// reportAlive tells the other nodes of workers that were heard since the last round and hold tasks
// of theirs.
func (wc *workerCalls) reportAlive(ctx context.Context) error {
	wc.mu.Lock()
	wants := wc.mem.workers.aliveLeases()
	wc.release()
	if len(wants) == 0 {
		return nil
	}
	if _, err := wc.store.AcquireAll(ctx, anyNode, wants, aliveFor, math.MaxInt64); err != nil {
		return fmt.Errorf("report %d workers alive: %w", len(wants), err)
	}
	return nil
}

// aliveLeases are the reports of workers that are to be reported alive now.
func (ws workers) aliveLeases() (list []store.Lease) {
	for name, w := range ws {
		if w.remote && w.heard.After(w.reported) {
			w.reported = w.heard
			list = append(list, store.Lease{
				Name: AlivePrefix + name, Value: []byte(w.incarnation),
			})
		}
	}
	// as every write of many does: see sortRunning
	slices.SortFunc(list, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// inquire asks whether other nodes have heard the workers that have missed a beat here, so that
// judge knows when it counts.
func (wc *workerCalls) inquire(ctx context.Context, now time.Time) error {
	wc.mu.Lock()
	missed := wc.mem.workers.missBeats(now)
	wc.release()
	if !missed {
		return nil
	}
	got, err := wc.store.Beat(ctx, nil, aliveFor, AlivePrefix)
	if err != nil {
		return fmt.Errorf("ask who has heard silent workers: %w", err)
	}
	wc.mu.Lock()
	defer wc.release()
	wc.mem.workers.hearAlive(got, now)
	return nil
}

// missBeats tells whether a worker that has something in hands missed a beat.
func (ws workers) missBeats(now time.Time) bool {
	for _, w := range ws {
		if w.beats && w.hands() > 0 && w.silent(now) > w.told {
			return true
		}
	}
	return false
}

// hearAlive takes in when other nodes heard the workers.
func (ws workers) hearAlive(got store.Beat, now time.Time) {
	for _, l := range got.Leases {
		w := ws[strings.TrimPrefix(l.Name, AlivePrefix)]
		if w == nil || l.Until == 0 || !w.is(string(l.Value)) {
			continue
		}
		if seen := fromNow(now, got.Now, l.Until-aliveFor.Microseconds()); seen.After(w.seen) {
			w.seen, w.spared = seen, false // but not heard: it is not for this node to report
		}
	}
}

// is tells whether what is waited for from the worker is with that start of it: a later one has
// none of it.
func (w *worker) is(incarnation string) bool {
	other := func(its string) bool { return its != "" && its != incarnation }
	return !slices.ContainsFunc(w.out, func(it *item) bool { return other(it.incarnation) }) &&
		!slices.ContainsFunc(w.parcels, func(p *parcel) bool { return other(p.incarnation) })
}

// leave gives back what a leaving worker says that it has of other nodes' tasks.
func (wc *workerCalls) leave(
	ctx context.Context, b task.Beat, known map[handKey]task.Action,
) error {
	var reports []task.Report
	for _, h := range b.Tasks {
		if key, ok := wc.mem.key(h); ok && known[key] == task.ActionContinue {
			reports = append(reports, task.Report{
				ID: h.ID, Token: h.Token, Outcome: task.Release(),
			})
		}
	}
	if len(reports) == 0 {
		return nil
	}
	_, err := wc.settlements.Report(ctx, b.Worker, reports)
	return err
}
