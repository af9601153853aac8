package firing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/tick"
)

// Firer is one node's share of the schedules. All methods may be called at the same time, but for
// Watch: one look at a time is made.
//
// It is made of parts, which all have the core; what a part needs of another one it has a field
// for. Each can be read by itself, and their exported methods are the firer's.
type Firer struct {
	*core
	*claims    // which schedules this node fires
	*reads     // schedules as the store has them
	*writes    // what comes of due times
	*checker   // what is wrong with edits
	*edits     // what people make of schedules
	*views     // what people see of them
	*byHand    // fires that people ask for
	*followers // fires that follow others
	*watcher   // what becomes of tasks

	alarm *tick.Timer // rings the bell
}

// New makes a firer. It fires nothing by itself before Run; what it is asked for it does.
func New(conf Config) (*Firer, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure firer: %w", err)
	}
	f := newParts(&core{
		conf: conf, store: conf.Store, times: newTimetables(), bell: make(chan struct{}, 1),
	})
	f.alarm = conf.Clock.After(0, f.Hear)
	f.alarm.Stop()
	return f, nil
}

// newParts makes the parts around a core, each after those that it needs.
func newParts(c *core) *Firer {
	f := &Firer{
		core: c, claims: &claims{core: c, owned: map[string]bool{}},
		reads: &reads{core: c, faulty: map[string]int64{}},
	}
	f.writes = &writes{c, f.reads}
	f.checker = &checker{c, f.reads}
	f.edits = &edits{
		core: c, checker: f.checker, reads: f.reads, writes: f.writes, claims: f.claims,
	}
	f.views = &views{c, f.reads, f.claims}
	f.byHand = &byHand{c, f.reads, f.writes, f.edits}
	f.followers = &followers{c, f.reads, f.writes}
	f.watcher = &watcher{
		core: c, claims: f.claims, reads: f.reads, writes: f.writes, checker: f.checker,
		edits: f.edits, followers: f.followers, notified: map[store.FireKey]notified{},
	}
	return f
}

// Run does a round every beat and at due times, and looks every beat what became of tasks, until
// ctx ends or the store breaks.
func (f *Firer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer f.alarm.Stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { stop(f.every(ctx, nil, "watch fires", f.Watch)) })
	err := f.every(ctx, f.bell, "fire", f.Round)
	if err == nil && errors.Is(context.Cause(ctx), store.ErrBroken) {
		err = context.Cause(ctx)
	}
	stop(err) // the watch ends, too, whatever it finds
	return err
}

// every does a round each beat, and when the bell rings, until ctx ends or the store breaks.
func (f *Firer) every(
	ctx context.Context, bell <-chan struct{}, verb string,
	round func(context.Context, time.Time) error,
) error {
	beat := time.NewTicker(f.conf.Beat)
	defer beat.Stop()
	for {
		switch err := round(ctx, f.conf.Now()); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrBroken):
			return err
		case err != nil && !loggedElsewhere(err):
			f.conf.Log.Error(verb, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-bell:
		case <-beat.C:
		}
	}
}

// loggedElsewhere reports whether an error has been logged by another loop, so that it is logged
// once: the scheduler logs that the store is out of reach or full, and a store that is being closed
// is no error.
func loggedElsewhere(err error) bool {
	return errors.Is(err, store.ErrOutOfReach) || errors.Is(err, store.ErrFull) ||
		errors.Is(err, store.ErrClosed)
}

// ahead is how many beats before a due time the alarm is set for it.
const ahead = 2

// page is how many schedules are read at a time.
const page = 500

// Round fires what is due, now by the store's clock, of the schedules that this node looks after,
// oldest first, and sets the alarm for what is due next. It reads everything again: whatever others
// did meanwhile, or changed, it finds.
func (f *Firer) Round(ctx context.Context, now time.Time) error {
	at := now.UnixMicro()
	q := store.DueQuery{Until: at + ahead*f.conf.Beat.Microseconds(), Limit: page}
	var wrong []error
	for {
		list, err := f.store.Due(ctx, q)
		if err != nil {
			return errors.Join(append(wrong, fmt.Errorf("look what is due: %w", err))...)
		}
		due, next := f.sort(list, now)
		if err := f.fire(ctx, due, at); err != nil {
			wrong = append(wrong, err) // the others are not to wait for those
		}
		if next != 0 {
			f.wake(next)
		}
		if next != 0 || len(list) < q.Limit {
			return errors.Join(wrong...)
		}
		last := &list[len(list)-1]
		q.After = store.Cursor{Next: last.Next, Name: last.Name}
	}
}

// sort picks those that this node is to fire now, and says when the next one of its own is due; 0 =
// none of them is.
func (f *Firer) sort(list []store.Schedule, now time.Time) (due []*store.Schedule, next int64) {
	at := now.UnixMicro()
	for i := range list {
		s := &list[i]
		switch mine := f.owns(s.Name); {
		case s.Next > at && mine:
			return due, s.Next
		case s.Next <= at && (mine || f.abandoned(s.Next, now)):
			due = append(due, s)
		}
	}
	return due, 0
}

// wake sets the alarm for a time by the store's clock.
func (f *Firer) wake(at int64) { f.alarm.Reset(time.Duration(at-f.now()) * time.Microsecond) }
