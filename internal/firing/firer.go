package firing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/tick"
)

// Config of a firer. Store, Tasks, Clock and Node are needed.
type Config struct {
	Store Store
	Tasks Tasks
	Clock *tick.Clock // wakes the firer at due times; run by the caller
	Node  string      // that stands in the rows

	// Now says what the store's clock reads. Default: this machine's.
	Now func() time.Time
	// Beat is the time between rounds. Default 1 s.
	Beat time.Duration
	// Alone: no other node can work on the store, so all keys are this one's.
	Alone bool
	// Owners says which node looks after which key, for people: Kind, a slash and the key. Default:
	// nobody knows.
	Owners func() map[string]string
	// Handled is told of each due time, or several in one row, of which this firer wrote down what
	// came of it. It must not block. Default: nobody is.
	Handled func(*store.Fire)
	// EventsAdded is called after events were appended to the log. It must not block. Default:
	// nothing is called.
	EventsAdded func()
	// Log is where the firer tells what went wrong. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var missing []error
	if c.Store == nil || c.Tasks == nil {
		missing = append(missing, errors.New("no Store or no Tasks"))
	}
	if c.Clock == nil || c.Node == "" {
		missing = append(missing, errors.New("no Clock or no Node"))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Beat <= 0 {
		c.Beat = time.Second
	}
	if c.Owners == nil {
		c.Owners = func() map[string]string { return nil }
	}
	if c.Handled == nil {
		c.Handled = func(*store.Fire) {}
	}
	if c.EventsAdded == nil {
		c.EventsAdded = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(missing...)
}

// Firer is one node's share of the schedules. All methods may be called at the same time.
type Firer struct {
	conf  Config
	store Store
	times *timetables
	bell  chan struct{} // of size 1: there is something to fire now
	alarm *tick.Timer   // rings it

	mu    sync.Mutex
	owned map[string]bool // keys that this node looks after
	chore time.Time       // until then it is this node that fires what others leave lying
	keys  keys
	// faulty are the versions of schedules that this node can't read and has logged.
	faulty map[string]int64

	watch watch // owned by the watcher
}

// New makes a firer. It fires nothing by itself before Run; what it is asked for it does.
func New(conf Config) (*Firer, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure firer: %w", err)
	}
	f := &Firer{
		conf: conf, store: conf.Store, times: newTimetables(), bell: make(chan struct{}, 1),
		owned: map[string]bool{}, faulty: map[string]int64{},
		watch: watch{notified: map[store.FireKey]notified{}},
	}
	f.alarm = conf.Clock.After(0, f.Hear)
	f.alarm.Stop()
	return f, nil
}

// Hear takes in a hint that something may be due.
func (f *Firer) Hear() {
	select {
	case f.bell <- struct{}{}:
	default: // one is enough
	}
}

func (f *Firer) now() int64 { return f.conf.Now().UnixMicro() }

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
