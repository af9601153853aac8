package supervise

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// visit is one session as a round found it, and what the round learns of it.
type visit struct {
	session        // a copy, taken when the round began
	entry   *entry // the session itself: only under the lock of Sessions
	// no round has gone through its newest beat, and the worker may not be elsewhere by now
	fresh   bool
	drained bool        // the worker is to give up work
	drain   store.Drain // what, if it is

	newer  bool // a newer incarnation has its name
	early  bool // it fell silent, but may not have stopped its jobs yet
	seated bool // the store says that the worker is here
	// when the incarnation of an arriving worker came; what was assigned before was its
	// predecessor's
	joined int64
	// what it is to run is not known, or what it said is not written down: the next round goes on
	unresolved bool
}

// Round writes down who came and left, and what workers said of their jobs; then it lets those be
// answered whose orders changed. What fails is done by the next round: until then nothing is
// forgotten, and nobody is told to end anything.
func (r *Sessions) Round(ctx context.Context, now time.Time) error {
	all := r.collect(now)
	if err := r.cache.Look(ctx); err != nil {
		return err
	}
	if err := r.seat(ctx, all, now); err != nil {
		return err
	}
	err := r.catch(ctx, all)
	if e := r.observe(ctx, all, now); e != nil {
		for _, g := range all {
			g.unresolved = g.unresolved || g.fresh
		}
		err = errors.Join(err, e)
	}
	for _, w := range r.settle(all) {
		r.conf.Reserve(w.worker, w.load)
	}
	return err
}

// collect is everybody who sits here, by name.
func (r *Sessions) collect(now time.Time) []*visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*visit, 0, len(r.entries))
	visits := make([]visit, len(r.entries)) // one piece of memory for all
	for _, s := range r.entries {
		g := &visits[len(all)]
		g.session = s.session
		g.entry = s
		g.newer = s.state.outranked()
		g.drain, g.drained = r.drained[s.name]
		g.given = slices.Clone(s.given)
		g.fresh = s.beats > s.checked && now.Sub(s.at) <= r.conf.Patience
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *visit) int { return strings.Compare(a.name, b.name) })
	return all
}

// seat writes down who beats here, and who does not any more. What stands so already costs nothing.
func (r *Sessions) seat(ctx context.Context, all []*visit, now time.Time) error {
	req := store.SeatRequest{Holder: r.conf.Holder, Overlap: r.conf.MaxAge}
	for _, g := range all {
		have := r.cache.seat(g.name)
		if have != nil && g.fresh {
			r.mu.Lock()
			g.entry.speaksOf(have.Groups)
			g.groups = g.entry.groups
			r.mu.Unlock()
		}
		if have != nil && have.Incarnation != g.beat.Incarnation &&
			slices.Contains(have.Before, g.beat.Incarnation) {
			g.newer = true
		}
		here := r.sits(have, g)
		// where it is not here, another node may have spoken with it since its newest beat
		g.continued = g.continued && here
		g.early = g.state.departing() && g.departure == store.SeatSilent &&
			now.Sub(r.heard(g, have)) < silenceOf(have)
		switch want := r.seatOf(g, have, now); {
		case g.early: // who judged it did not know yet how long it may go
		case g.newer, !here && !g.fresh:
			// it has gone to another node, or a newer one of its name has come
		case g.state.departing():
			if !here {
				req.Taken = append(req.Taken, want)
			}
			req.Away = append(req.Away, store.Seat{
				Worker: g.name, Incarnation: g.beat.Incarnation, State: g.departure,
			})
		case !here || !sameSeat(have, &want):
			req.Taken = append(req.Taken, want)
		}
	}
	if len(req.Taken)+len(req.Away) > 0 {
		got, err := r.conf.Store.Seat(ctx, req)
		if err == nil && got.LeaseGone {
			err = errNoMember
		}
		if err != nil {
			return fmt.Errorf("write down %d workers: %w", len(req.Taken)+len(req.Away), err)
		}
		for _, g := range all {
			g.newer = g.newer || slices.Contains(got.Superseded, g.name)
		}
		if err := r.cache.Look(ctx); err != nil {
			return err
		}
	}
	for _, g := range all {
		have := r.cache.seat(g.name)
		if g.seated = r.sits(have, g); g.seated && !g.state.known() {
			g.joined = have.Joined
		}
	}
	return nil
}

// heard is when an answer may have reached a worker last: after its newest beat here, or by the
// node at which it beat before, which may not have known yet that it was not its own any more.
func (r *Sessions) heard(g *visit, have *store.Seat) time.Time {
	if have != nil {
		if at := r.cache.when(have.Overlap); at.After(g.at) {
			return at
		}
	}
	return g.at
}

// sits tells whether a seat says that a worker sits here.
func (r *Sessions) sits(have *store.Seat, g *visit) bool {
	return have != nil && have.State == store.SeatTaken && have.Node == r.conf.Holder &&
		have.Incarnation == g.beat.Incarnation
}

// seatOf is the seat that a worker is to have here.
func (r *Sessions) seatOf(g *visit, have *store.Seat, now time.Time) store.Seat {
	silence := silenceOf(have)
	if g.fresh {
		silence = g.promise.next(r.cache.silences(g.beat.Groups).worker, silence, now)
	}
	return store.Seat{
		Worker: g.name, Node: r.conf.Holder, Incarnation: g.beat.Incarnation,
		Capacity: task.Units(math.Round(g.beat.Capacity * float64(task.Unit))),
		Labels:   g.beat.Labels, Zone: g.beat.Zone, Groups: g.beat.Groups,
		Draining: g.drained && g.drain.Whole(), Shed: g.drain.Shed, DrainBy: g.drain.By,
		Silence: silence,
	}
}

func sameSeat(a, b *store.Seat) bool {
	return a.Capacity == b.Capacity && a.Zone == b.Zone && a.Draining == b.Draining &&
		a.Shed == b.Shed && a.DrainBy == b.DrainBy &&
		silenceOf(a) == silenceOf(b) && slices.Equal(a.Groups, b.Groups) &&
		maps.Equal(a.Labels, b.Labels)
}

// catch reads on in the groups that somebody here serves or speaks of.
func (r *Sessions) catch(ctx context.Context, all []*visit) error {
	var errs []error
	read := map[string]error{}
	for _, g := range all {
		for _, group := range g.groups {
			err, done := read[group]
			if !done {
				if _, err = r.cache.Catch(ctx, group, false); errors.Is(err, errGroupGone) {
					err = nil
				} else if err != nil {
					errs = append(errs, err)
				}
				read[group] = err
			}
			g.unresolved = g.unresolved || err != nil
		}
	}
	return errors.Join(errs...)
}

// observe writes down what is new in what workers said, and reads what came of it: nobody is to be
// told what stood before.
func (r *Sessions) observe(ctx context.Context, all []*visit, now time.Time) error {
	said := store.Observed{Holder: r.conf.Holder}
	for _, g := range all {
		if g.seated && g.fresh && !g.state.departing() {
			g.hearSigns()
			r.compare(g, &said, r.cache.read(now))
		}
	}
	if len(said.States)+len(said.Adopt) == 0 {
		return nil
	}
	for left := said; len(left.States)+len(left.Adopt) > 0; {
		piece, room := store.Observed{Holder: said.Holder}, writeAtOnce
		piece.States = cutOff(&left.States, &room)
		piece.Adopt = cutOff(&left.Adopt, &room)
		got, err := r.conf.Store.Observe(ctx, piece)
		if err == nil && got.LeaseGone {
			err = errNoMember
		}
		if err != nil {
			return fmt.Errorf("write down %d runs: %w", len(piece.States)+len(piece.Adopt), err)
		}
		r.refuse(all, got.Refused)
	}
	var err error
	groups := map[string]bool{}
	for _, list := range [][]store.Observation{said.States, said.Adopt} {
		for i := range list {
			groups[list[i].Group] = true
		}
	}
	for group := range groups {
		if _, e := r.cache.Catch(ctx, group, true); e != nil && !errors.Is(e, errGroupGone) {
			err = errors.Join(err, e)
		}
	}
	r.cache.notify()
	return err
}

// compare adds what differs between the rows of a worker and what it said.
func (r *Sessions) compare(g *visit, said *store.Observed, storeNow int64) {
	for _, group := range g.groups {
		l, _ := r.cache.known(group)
		if l == nil {
			continue
		}
		l.mu.RLock()
		if l.loaded() && !l.gone {
			r.compareGroup(g, group, l, said, storeNow)
		}
		l.mu.RUnlock()
	}
}

// certain is after how long an assignment that is to end has ended if its worker's beat lacks it,
// though the worker may have been at another node: what that one answered last did not give it any
// more.
const certain = limits.DefaultSilence

func (r *Sessions) compareGroup(
	g *visit, group string, l *groupCache, said *store.Observed, storeNow int64,
) {
	runs := map[string]*task.Run{} // by job: those with the token of their row
	for i := range g.beat.Jobs {
		run := &g.beat.Jobs[i]
		if run.Group != group {
			continue
		}
		v, _, number := r.judge(l, g.name, run)
		switch row := l.find(g.name, run.Job); {
		case row != nil && row.Token == number:
			runs[run.Job] = run
		case v == unknown && !g.refused[run.Token]:
			said.Adopt = append(said.Adopt, observation(g.name, run, number, l.loadOf(run.Job)))
		}
	}
	for job, row := range l.at[g.name] {
		run := runs[job]
		anew := run == nil && row.Since < g.joined
		quiet := false
		say := func(state task.JobState, note string) {
			said.States = append(said.States, store.Observation{
				Group: group, Job: job, Replica: row.Replica, Worker: g.name, Token: row.Token,
				State: state, Note: note, Quiet: quiet, Anew: anew,
			})
		}
		switch row.State {
		case task.JobEnding:
			sure := g.continued && !slices.Contains(g.given, site{group, job}) ||
				storeNow-row.Since > certain.Microseconds()
			if run == nil && sure {
				say(store.Ended, "")
			}
		case task.JobMoving:
			if anew { // and its successor is on its way
				say(store.Ended, "")
			}
		case task.JobStarting, task.JobRunning, task.JobFailed:
			state, note := task.JobStarting, "" // what it lost it is told to start again
			if run != nil {
				state, note, quiet = g.stands(run, l.group.JobSilence)
			}
			differs := state != row.State || quiet != row.Quiet
			if anew || differs && (run != nil || g.continued) {
				say(state, note)
			}
		}
	}
}

// loadOf is the load of a job; of one that is not listed, nothing.
func (l *groupCache) loadOf(job string) task.Units {
	if j := l.jobs[job]; j != nil {
		return j.Load
	}
	return 0
}

func observation(worker string, run *task.Run, number int64, load task.Units) store.Observation {
	return store.Observation{
		Group: run.Group, Job: run.Job, Replica: run.Replica, Worker: worker, Token: number,
		State: stateOf(run), Load: load, Note: run.Error,
	}
}

// stateOf is what a worker says of a run; one of which it says nothing runs.
func stateOf(run *task.Run) task.JobState {
	if run.State == "" {
		return task.JobRunning
	}
	return run.State
}

// refuse notes the runs that nobody wants, by their tokens: their workers are told to end them.
func (r *Sessions) refuse(all []*visit, list []store.Observation) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		o := &list[i]
		at, found := slices.BinarySearchFunc(all, o.Worker, func(g *visit, name string) int {
			return strings.Compare(g.name, name)
		})
		if !found {
			continue
		}
		s := all[at].entry
		refused := map[string]bool{
			r.seals.SealJob(task.JobToken{Number: o.Token}, o.Group, o.Job, o.Replica,
				o.Worker).String(): true,
		}
		maps.Copy(refused, s.refused) // a copy: a round may be reading the old one
		s.refused = refused
	}
}

// owed is what Reserve is to be told.
type owed struct {
	worker string
	load   task.Units
}

// settle ends a round: who is known now is ready, who has gone is forgotten, and whose orders
// changed is to be told.
func (r *Sessions) settle(all []*visit) (tell []owed) {
	touched := r.cache.takeTouched()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range all {
		s := g.entry
		if s.incarnation != g.beat.Incarnation { // another one has come meanwhile
			continue
		}
		if !g.unresolved {
			s.checked = g.beats
		}
		quiet := s.beats == g.beats
		switch {
		case g.early:
			continue
		case quiet && (g.state.departing() || !g.fresh && !g.seated):
			// or it has gone to another node
			delete(r.entries, s.name)
			s.wake()
			if s.load > 0 {
				tell = append(tell, owed{s.name, 0})
			}
			continue
		case g.newer:
			s.observe(outranked)
			s.wake()
			continue
		case !g.seated:
			s.observe(unseated)
			continue
		case !g.unresolved && s.observe(resolved):
			s.reset, s.promise = true, promise{}
			touched[s.name] = true
		}
		if s.waits && s.reply(s.incarnation) == replyOrders {
			s.wake()
		}
		news := len(s.refused) != len(g.refused)
		if !s.state.known() || !touched[s.name] && !news {
			continue
		}
		if load, print := r.demand(s); load != s.load || print != s.print || news {
			s.load, s.print = load, print
			tell = append(tell, owed{s.name, load})
		}
	}
	return tell
}

// demand is what a worker's assignments take of its capacity, and a print of what it is told of
// them.
func (r *Sessions) demand(s *entry) (load task.Units, print uint64) {
	for _, group := range s.groups {
		l, _ := r.cache.known(group)
		if l == nil {
			continue
		}
		l.mu.RLock()
		for _, a := range l.at[s.name] {
			if a.State != store.Ended {
				load += a.Load
				print += printOf(a, lives(a.State))
			}
		}
		l.mu.RUnlock()
	}
	return load, print
}

// printOf tells one order from another: the sum of the prints of what a worker has changes with
// each.
func printOf(a *store.Assignment, lives bool) uint64 {
	h := fnv.New64a()
	io.WriteString(h, a.Job)
	fmt.Fprint(h, "/", a.Token, lives)
	return h.Sum64()
}
