package supervise

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Kinds of events that supervisors tell of. What is wrong is told once, and once when it is over.
const (
	GroupWarm  = "group.warm"  // a supervisor has begun to assign
	GroupShort = "group.short" // replicas have no place
	GroupOK    = "group.ok"    // they all have one, again or at last
	// a worker said that it leaves, and what it ran starts elsewhere
	WorkerLeft    = "worker.left"
	WorkerDead    = "worker.dead"    // a worker is gone, and what it ran starts elsewhere
	JobQuiet      = "job.quiet"      // a replica's handler gave no sign for too long
	WorkersSilent = "workers.silent" // so many are gone at once that they get one more limit
	SourceFailed  = "source.failed"  // a list of jobs could not be read: the last good one stands
	SourceOK      = "source.ok"      // it was read again
)

// alarms are what one supervisor tells of its group.
type alarms struct {
	tell  func(store.Event)
	group string
	token int64 // of the claim: what two supervisors tell of the same are two events
	n     int   // events that have no key of their own

	warmed bool
	since  time.Time // since when replicas have had no place; zero = all have one
	told   bool      // of that
	owed   bool      // the supervisor before may have told of that, and not of its end
	brake  bool
}

// say tells of the group. A key makes one event of what several supervisors tell; without one it is
// this one's alone.
func (a *alarms) say(kind, key string, fields map[string]string, format string, args ...any) {
	if key == "" {
		a.n++
		key = fmt.Sprintf("%d/%d", a.token, a.n)
	}
	a.tell(store.Event{
		Key: kind + "/" + a.group + "/" + key, Kind: kind, Subject: a.group, Fields: fields,
		Text: fmt.Sprintf("group %s: ", a.group) + fmt.Sprintf(format, args...),
	})
}

// warm tells that the warm-up is over. Short: replicas had no place when it began.
func (a *alarms) warm(p *snapshot, adopted int, short bool) {
	if a.warmed {
		return
	}
	a.warmed, a.owed = true, short
	workers := map[string]bool{}
	for _, r := range p.rows {
		workers[r.Worker] = true
	}
	a.say(GroupWarm, "", map[string]string{
		"replicas": fmt.Sprint(len(p.rows)), "adopted": fmt.Sprint(adopted),
	},
		"its new supervisor found %d replicas on %d workers, and adopted %d more that the store did not know",
		len(p.rows)-adopted, len(workers), adopted)
}

// patience is after how many beats it is told that replicas have no place.
const patience = 2

// short tells, once, when replicas have had no place for a while, and when all have one again. A
// new supervisor tells of it anew, and of the end whoever told of the beginning. It answers when to
// ask again, by the store's clock.
func (a *alarms) short(p *snapshot, in *plan, now time.Time, beat time.Duration) (due int64) {
	if len(in.pending) == 0 {
		if a.since = (time.Time{}); (a.told || a.owed) && len(in.next) == 0 {
			a.told, a.owed = false, false
			a.say(GroupOK, "", nil, "every replica has a place")
		}
		return 0
	}
	if a.since.IsZero() {
		a.since = now
	}
	if waited := now.Sub(a.since); !a.told && waited < patience*beat {
		return p.now + (patience*beat - waited).Microseconds()
	}
	if !a.told {
		a.told = true
		first := in.pending[0]
		a.say(GroupShort, "", map[string]string{
			"pending": fmt.Sprint(len(in.pending)), "job": first.Job,
			"reason": string(first.Reason.Code),
		},
			"%s, first %s/%d: %v",
			count(len(in.pending), "replica has no place", "replicas have no place"), first.Job,
			first.Replica, first.Reason)
	}
	return p.now + fullEvery.Microseconds() // of what other groups leave nobody is told
}

// dead tells of workers that are gone, or have left, with what they ran.
func (a *alarms) dead(p *snapshot, in *plan) {
	for _, worker := range slices.Sorted(maps.Keys(in.lost)) {
		since, kind := int64(0), WorkerDead
		for _, s := range p.seats {
			if s.Worker != worker {
				continue
			}
			if since = s.Since; s.State == store.SeatLeft {
				kind = WorkerLeft
			}
		}
		a.say(kind, fmt.Sprintf("%s/%d", worker, since), map[string]string{
			"worker": worker, "replicas": fmt.Sprint(in.lost[worker]),
		},
			"worker %s is gone, %s: %s", worker, in.gone[worker],
			count(in.lost[worker], "replica has to start elsewhere",
				"replicas have to start elsewhere"))
	}
}

// quiet tells of replicas whose handlers gave no sign for too long, and what is done about them.
func (a *alarms) quiet(p *snapshot, in *plan) {
	to := map[store.Place]string{}
	for _, m := range in.Move {
		to[store.Place{Job: m.Job, Replica: m.Replica, Worker: m.From}] = m.Worker
	}
	for i := range in.End {
		e := &in.End[i]
		to[store.Place{Job: e.Job, Replica: e.Replica, Worker: e.Worker}] = ""
	}
	for _, r := range p.rows {
		next, acts := to[store.Place{Job: r.Job, Replica: r.Replica, Worker: r.Worker}]
		if !r.Quiet || r.State != task.JobFailed || !acts {
			continue
		}
		then := fmt.Sprintf("it starts on %s, and ends on %s once it runs there", next, r.Worker)
		if next == "" {
			then = "no other worker has a place for it: it ends, and starts anew where there is one"
		}
		a.say(JobQuiet, fmt.Sprintf("%s/%d/%d/%d", r.Job, r.Replica, r.Token, r.Failed),
			map[string]string{
				"job": r.Job, "replica": fmt.Sprint(r.Replica), "worker": r.Worker, "to": next,
			},
			"%s/%d on worker %s: %s; %s", r.Job, r.Replica, r.Worker, r.Note, then)
	}
}

// braked tells when the mass-silence brake holds.
func (a *alarms) braked(on bool) {
	if on && !a.brake {
		a.say(WorkersSilent, "", nil,
			"many workers lost their nodes at once and did not come back: they get one more limit before what they ran starts elsewhere")
	}
	a.brake = on
}

// source tells that a source could not be read though it could before, and that it can be again.
func (a *alarms) source(before, after store.SourceRead) {
	key := fmt.Sprint(before.Good)
	switch {
	case before.Error == "" && after.Error != "":
		a.say(SourceFailed, key, map[string]string{"error": after.Error},
			"its source could not be read, the jobs stay as they are: %s", after.Error)
	case before.Error != "" && after.Error == "":
		a.say(SourceOK, key, nil, "its source was read again")
	}
}
