package fault

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
)

// Door is the store as one node reaches it. A call has a verb, the name of its method. All calls
// are counted and may fail, but for Retention and Close, which answer always. What the door does
// may be changed at any time, by any goroutine.
type Door struct {
	contract.Store      // behind the door: by way of it nothing fails, and nothing is counted
	plan           Plan // of writes, see New; nil = they work

	mu      sync.Mutex
	cut     bool
	crashed bool
	dead    bool
	fail    func(verb string) Fault // nil = no call does
	crash   func(verb string) Fault // nil = at no call
	before  map[string]hook         // by verb
	after   map[string]hook
	slow    map[string]time.Duration
	calls   map[string]int // that came through, by verb
	writes  int            // of them
}

// NewDoor is an open door to a store.
func NewDoor(s contract.Store) *Door {
	return &Door{
		Store: s, before: map[string]hook{}, after: map[string]hook{},
		slow: map[string]time.Duration{}, calls: map[string]int{},
	}
}

// Cut lets no call through until Restore: each is answered ErrAway.
func (d *Door) Cut() { d.set(&d.cut, true) }

// Restore ends Cut. The door of a node that crashed or was killed stays as it is.
func (d *Door) Restore() { d.set(&d.cut, false) }

// Kill lets no call through any more: the node is dead.
func (d *Door) Kill() { d.set(&d.dead, true) }

func (d *Door) set(what *bool, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*what = yes
}

// Away tells whether nothing comes through, for now or for good.
func (d *Door) Away() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away()
}

func (d *Door) away() bool { return d.cut || d.crashed || d.dead }

// Dead tells whether the node was killed.
func (d *Door) Dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// Crashed tells whether the node has come to the call at which it crashes.
func (d *Door) Crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crashed
}

// Fail lets calls fail as a function says, which is asked about each call that comes through, holds
// no lock and may take its time. nil = none does.
func (d *Door) Fail(how func(verb string) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = how
}

// CrashAt lets the node crash at the first call for which a function answers a fault: the call
// fails so, and no later one comes through. nil = at none.
func (d *Door) CrashAt(where func(verb string) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crash = where
}

// Before lets something be done before each call of a verb that comes through. It holds no lock; an
// error is answered in place of the call. nil = nothing any more.
func (d *Door) Before(verb string, do func() error) {
	d.hook(d.before, verb, hook{do: func(error) error { return do() }}, do == nil)
}

// BeforeNext is Before for the next call only. The channel is closed when all is done.
func (d *Door) BeforeNext(verb string, do func() error) (done chan struct{}) {
	ended := make(chan struct{})
	d.hook(d.before, verb, hook{once: true, do: func(error) error {
		defer close(ended)
		return do()
	}}, false)
	return ended
}

// Answer lets calls of a verb answer an error, and do nothing; nil = not any more.
func (d *Door) Answer(verb string, err error) {
	d.hook(d.before, verb, hook{do: func(error) error { return err }}, err == nil)
}

// After lets something be done when a call of a verb is over, with its error; what it returns is
// answered in its place. It holds no lock. nil = nothing any more.
func (d *Door) After(verb string, do func(error) error) {
	d.hook(d.after, verb, hook{do: do}, do == nil)
}

// AfterNext is After for the next call only.
func (d *Door) AfterNext(verb string, do func(error) error) {
	d.hook(d.after, verb, hook{do: do, once: true}, false)
}

// hook is what is done before or after calls of a verb.
type hook struct {
	do   func(error) error
	once bool // for the next call only
}

func (d *Door) hook(list map[string]hook, verb string, h hook, none bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if list[verb] = h; none {
		delete(list, verb)
	}
}

// hooked is what is to be done at a call.
func hooked(list map[string]hook, verb string) func(error) error {
	h := list[verb]
	if h.once {
		delete(list, verb)
	}
	return h.do
}

// Slow lets calls of a verb, or with "" all calls, take so long, whatever their contexts say. What
// becomes of a call is decided when it comes.
func (d *Door) Slow(verb string, takes time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow[verb] = takes
}

// Calls counts those of some verbs that came through, failed or not, since Forget; without verbs
// all.
func (d *Door) Calls(verbs ...string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, verb := range verbs {
		n += d.calls[verb]
	}
	if len(verbs) == 0 {
		for _, calls := range d.calls {
			n += calls
		}
	}
	return n
}

// Writes counts the writes among them.
func (d *Door) Writes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

// Forget begins to count anew, and says what was counted, by verb.
func (d *Door) Forget() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := maps.Clone(d.calls)
	clear(d.calls)
	d.writes = 0
	return calls
}

// Through makes a call through a door: one of the store's, or what else goes the same way.
func Through[A any](
	ctx context.Context, d *Door, verb string, do func() (A, error),
) (A, error) {
	return through(ctx, d, verb, false, do)
}

func through[A any](
	ctx context.Context, d *Door, verb string, writes bool, do func() (A, error),
) (a A, err error) {
	kind, err := d.decide(verb, writes)
	switch {
	case err != nil:
		return a, err
	case kind == Before:
		return a, fmt.Errorf("%s: %w", verb, ErrFault)
	case kind == Hang:
		<-ctx.Done()
		return a, context.Cause(ctx)
	}
	if a, err = do(); kind == After && err == nil {
		var none A
		a, err = none, fmt.Errorf("%s: %w", verb, store.ErrUnknown)
	}
	if do := d.afterwards(verb); do != nil {
		err = do(err)
	}
	return a, err
}

// decide says what becomes of a call that comes now, and takes the time that it takes.
func (d *Door) decide(verb string, writes bool) (Fault, error) {
	d.mu.Lock()
	away, fail := d.away(), d.fail
	var before func(error) error
	slow := d.slow[""] + d.slow[verb]
	kind := None
	if !away {
		d.calls[verb]++
		before = hooked(d.before, verb)
		if writes {
			kind = d.planned()
		}
		if d.crash != nil {
			if at := d.crash(verb); at != None {
				kind, d.crashed = at, true
			}
		}
	}
	d.mu.Unlock()
	if !away && fail != nil && kind == None {
		kind = fail(verb)
	}
	if slow > 0 {
		time.Sleep(slow)
	}
	switch {
	case away:
		return None, fmt.Errorf("%s: %w", verb, ErrAway)
	case before != nil:
		return kind, before(nil)
	}
	return kind, nil
}

func (d *Door) afterwards(verb string) func(error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return hooked(d.after, verb)
}

// planned is how the next write fails.
func (d *Door) planned() Fault {
	d.writes++
	if d.plan == nil {
		return None
	}
	return d.plan(d.writes - 1)
}

// write makes a call that may change something.
func write[A any](ctx context.Context, d *Door, verb string, do func() (A, error)) (A, error) {
	return through(ctx, d, verb, true, do)
}

// tell is write for a call that answers nothing but an error.
func tell(ctx context.Context, d *Door, verb string, do func() error) error {
	_, err := write(ctx, d, verb, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// read makes a call that changes nothing.
func read[A any](ctx context.Context, d *Door, verb string, do func() (A, error)) (A, error) {
	return through(ctx, d, verb, false, do)
}

// readTwo is read for a call that answers two values.
func readTwo[A, B any](
	ctx context.Context, d *Door, verb string, do func() (A, B, error),
) (A, B, error) {
	type both struct {
		a A
		b B
	}
	got, err := read(ctx, d, verb, func() (both, error) {
		a, b, err := do()
		return both{a, b}, err
	})
	return got.a, got.b, err
}
