// Package drain decides whether a worker may be drained, wholly or of a part of its capacity, and
// says beforehand what that costs: how many replicas move, how many tasks it has to finish, how
// long it takes.
//
// A drain is refused where it breaks what the groups are promised: where a replica that runs on the
// worker has no other place. The refusal says what would have to be added, and force does it all
// the same: what has no other place then stays where it is.
//
//	read what operators said ──> weigh ──> refuse, or write the word
//	└───────────── one drain of the cluster at a time ─────────────┘
//
// Many drains at once would each find places that the others need, and a word takes a beat to reach
// all nodes. So one drain at a time is weighed in the whole cluster, by a lease, and with it all
// words that stand in the store. A node that dies in its turn holds up the others for as long as
// the lease lasts; a turn that was held longer than that, by a store that hangs, could let two
// drains be weighed side by side, which is what force does, too: nothing stops that has no other
// place.
package drain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Leases is where words and turns stand: the store.
type Leases interface {
	AcquireAll(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
	EndAll(ctx context.Context, leases []store.Lease, remove bool) error
	Beat(ctx context.Context, held []store.Lease, ttl time.Duration,
		prefixes ...string) (store.Beat, error)
}

// Groups says what a drain does to groups of jobs, when all that was said of workers holds.
type Groups interface {
	DrainPrice(ctx context.Context, worker string, what store.Drain,
		said map[string]store.Drain) (store.GroupsPrice, error)
}

// Workers are those of all nodes.
type Workers interface {
	Workers(ctx context.Context, here bool) (list []task.Worker, missing []string, err error)
	DrainWorker(ctx context.Context, name string, what store.Drain, here bool) error
}

// Tasks are those that workers have in hands.
type Tasks interface {
	Tasks(ctx context.Context, f store.Filter, after task.ID, limit int) (page []task.View,
		next task.ID, err error)
}

// History is what was done when.
type History interface {
	History(context.Context, history.Question) ([]history.Period, error)
}

// Config of Drains. All of it is needed.
type Config struct {
	Leases  Leases
	Groups  Groups
	Workers Workers
	Tasks   Tasks
	History History
	// Holder is this start of this node, for its turns.
	Holder string
}

// Drains weighs drains and lets them be. Its methods may be called at the same time.
type Drains struct {
	conf  Config
	turns atomic.Int64 // that were asked for, to tell one from another
}

// New makes the drains of a node.
func New(conf Config) *Drains { return &Drains{conf: conf} }

const (
	turn      = "turn/worker-drain" // the lease of whoever weighs a drain
	turnLong  = 15 * time.Second    // how long that lasts
	weighLong = 10 * time.Second    // how long it takes at most, so that the lease outlasts it
	turnWait  = 100 * time.Millisecond
	turnAsks  = 100 // how often it is asked for, at most
)

// RefusedError says why a worker is not drained. It is a store.ErrForcible.
type RefusedError struct {
	Worker string
	Price  store.DrainPrice
}

func (e *RefusedError) Error() string {
	has := "replicas of %s have"
	if e.Price.Stays == 1 {
		has = "replica of %s has"
	}
	return fmt.Sprintf("%d "+has+" no other place than worker %q: %s", e.Price.Stays,
		strings.Join(e.Price.Breaks, ", "), e.Worker, e.Price.Add())
}

// Unwrap makes it an error that force overcomes.
func (e *RefusedError) Unwrap() error { return store.ErrForcible }

// Drain says what a drain costs and, unless it is only to be said, lets it be. Without force it is
// refused (*RefusedError, with the price) where replicas have no other place, unless as much was
// said of the worker before; with force it is done even if it can't be said what it costs. Nobody
// knows the worker: store.ErrNotFound. Other drains take too long: store.ErrBusy.
func (d *Drains) Drain(ctx context.Context, what store.WorkerDrain) (store.DrainPrice, error) {
	if what.DryRun {
		_, price, err := d.weigh(ctx, &what)
		return price, err
	}
	mine, err := d.turn(ctx)
	if err != nil {
		return store.DrainPrice{}, fmt.Errorf("drain worker %q: %w", what.Worker, err)
	}
	defer func() { // else it ends by itself
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnLong)
		defer cancel()
		d.conf.Leases.EndAll(ctx, mine, true)
	}()
	said, price, err := d.weigh(ctx, &what)
	switch old, drains := said[what.Worker]; {
	case err != nil && what.Force && ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) &&
		(what.Within == 0 || what.By != 0): // when it is to be done is known
		price = store.DrainPrice{By: what.By, Text: "What it costs is not known: " + err.Error() + "."}
	case err != nil:
		return price, err
	case price.Stays > 0 && !what.Force && !(drains && old.Covers(what.Drain)):
		return price, &RefusedError{what.Worker, price}
	}
	return price, d.conf.Workers.DrainWorker(ctx, what.Worker, what.Drain, false)
}

// weigh reads what operators said, finds out when a drain is to be done, and what it costs.
func (d *Drains) weigh(
	ctx context.Context, what *store.WorkerDrain,
) (said map[string]store.Drain, price store.DrainPrice, err error) {
	ctx, cancel := context.WithTimeout(ctx, weighLong)
	defer cancel()
	now, said, err := d.said(ctx)
	if err != nil {
		return nil, price, fmt.Errorf("drain worker %q: %w", what.Worker, err)
	}
	if what.Within > 0 {
		what.By = now + what.Within.Microseconds()
	}
	if price, err = d.price(ctx, *what, said); err != nil {
		return nil, price, fmt.Errorf("drain worker %q: %w", what.Worker, err)
	}
	price.By = what.By
	return said, price, nil
}

// turn waits until nobody else weighs a drain.
func (d *Drains) turn(ctx context.Context) ([]store.Lease, error) {
	holder := fmt.Sprintf("%s#drain-%d", d.conf.Holder, d.turns.Add(1))
	for range turnAsks {
		got, err := d.conf.Leases.AcquireAll(ctx, holder, []store.Lease{{Name: turn}}, turnLong,
			math.MaxInt64)
		if err != nil || len(got.Leases) > 0 {
			return got.Leases, err
		}
		if err := pause.For(ctx, turnWait); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("another drain is being weighed: %w", store.ErrBusy)
}

// said is what operators said of workers, by name, and the store's time.
func (d *Drains) said(ctx context.Context) (now int64, said map[string]store.Drain, err error) {
	got, err := d.conf.Leases.Beat(ctx, nil, turnLong, store.DrainPrefix)
	if err != nil {
		return 0, nil, err
	}
	said = map[string]store.Drain{}
	for i := range got.Leases {
		if name, what, ok := store.DrainOf(&got.Leases[i]); ok {
			said[name] = what
		}
	}
	return got.Now, said, nil
}

// price weighs a drain.
func (d *Drains) price(
	ctx context.Context, what store.WorkerDrain, said map[string]store.Drain,
) (store.DrainPrice, error) {
	list, missing, err := d.conf.Workers.Workers(ctx, false)
	if err != nil {
		return store.DrainPrice{}, err
	}
	i := slices.IndexFunc(list, func(w task.Worker) bool { return w.Name == what.Worker })
	if i < 0 {
		err := store.ErrNotFound
		if len(missing) > 0 {
			err = fmt.Errorf("%s did not answer: %w", strings.Join(missing, ", "), store.ErrAway)
		}
		return store.DrainPrice{}, err
	}
	w := &list[i]
	p := store.DrainPrice{}
	if p.GroupsPrice, err = d.conf.Groups.DrainPrice(ctx, w.Name, what.Drain, said); err != nil {
		return p, err
	}
	p.Tasks = tasksOf(w, what.Drain, p.Load)
	if p.Minutes, err = d.minutes(ctx, w.Name, &p); err != nil {
		return p, err
	}
	p.Text = strings.TrimSpace(p.GroupsPrice.Text + " " + unserved(list, w, what.Drain, said))
	if len(missing) > 0 {
		p.Text = strings.TrimSpace(p.Text + " What the workers of " + strings.Join(missing, ", ") +
			" do is not known: it did not answer.")
	}
	return p, nil
}

// tasksOf is how many tasks a worker has to finish before it carries no more than it is to, beside
// jobs of that load.
func tasksOf(w *task.Worker, what store.Drain, jobs task.Units) int {
	if what.Whole() {
		return w.Running
	}
	lanes := int(max(w.Capacity-what.Shed.Float()-jobs.Float(), 0))
	return max(w.Running-lanes, 0)
}

// queuesNamed is how many queues a sentence names.
const queuesNamed = 3

// unserved says which queues nobody takes tasks from when a worker takes none.
func unserved(
	list []task.Worker, w *task.Worker, what store.Drain, said map[string]store.Drain,
) string {
	if !what.Whole() {
		return ""
	}
	served := map[string]bool{}
	for i := range list {
		other := &list[i]
		gives, drained := said[other.Name]
		if other.Name == w.Name || !other.Active || other.Draining || drained && gives.Whole() {
			continue
		}
		for _, queue := range other.Queues {
			served[queue] = true
		}
	}
	var alone []string
	for _, queue := range w.Queues {
		if !served[queue] {
			alone = append(alone, queue)
		}
	}
	switch more := len(alone) - queuesNamed; {
	case len(alone) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("Nobody else takes tasks of %s and %d more queues.",
			strings.Join(alone[:queuesNamed], ", "), more)
	}
	return fmt.Sprintf("Nobody else takes tasks of %s.", strings.Join(alone, ", "))
}
