package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors of Acquire, and causes of a lease's context.
var (
	// ErrTaken: another has it, or it is not certain yet that its last holder is dead.
	ErrTaken = errors.New("lease is taken")
	// ErrHeld: this keeper holds it already, or is just asking for it.
	ErrHeld = errors.New("lease is held already")
	// ErrExpired: it was not renewed in time; it may be held again if nobody else is given it.
	ErrExpired = errors.New("lease was not renewed")
	// ErrLost: another has it, or somebody ended it.
	ErrLost = errors.New("lease was lost")
	// ErrReleased: its holder released it.
	ErrReleased = errors.New("lease was released")
	// ErrClosed: the keeper acquires nothing any more.
	ErrClosed = errors.New("keeper of leases is closed")
)

// Config of a keeper. Store and Holder are needed.
type Config struct {
	Store Store
	// Holder is who this keeper is, in the store: no two keepers that live at the same time may
	// have the same, so it names the start of a process, not a machine.
	Holder string
	// TTL is how long a name stays this keeper's in the store after each renewal. Default 10 s.
	TTL time.Duration
	// Beat is the time between rounds of Run. Default 1 s, at most a third of TTL.
	Beat time.Duration
	// Margin is how long before the store could give a name to anybody else its context ends here.
	// Default a quarter of TTL. Answers of the store that take longer than a third of it don't
	// count as signs of a healthy store.
	Margin time.Duration
	// Alone: the store admits one process at a time, so that whatever stands in it is of the dead.
	// This keeper is always calm.
	Alone bool
	// Log is told of rounds that went wrong in Run, and of what was lost. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if c.Store == nil {
		wrong = append(wrong, errors.New("no Store"))
	}
	if c.Holder == "" {
		wrong = append(wrong, errors.New("no Holder"))
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = min(time.Second, c.TTL/3)
	}
	if c.Margin == 0 {
		c.Margin = c.TTL / 4
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Beat <= 0 || c.TTL < 3*c.Beat {
		wrong = append(wrong,
			fmt.Errorf("a TTL of %v is too short for a beat of %v: at least three beats", c.TTL,
				c.Beat))
	}
	if c.Margin < 0 || c.Margin > c.TTL/2 {
		wrong = append(wrong,
			fmt.Errorf("a margin of %v is not between 0 and half the TTL of %v", c.Margin, c.TTL))
	}
	return c, errors.Join(wrong...)
}

// Keeper acquires, renews and releases leases for one holder. All methods may be called by any
// goroutine.
type Keeper struct {
	conf  Config
	round sync.Mutex // one round at a time; taken before mu

	mu     sync.Mutex
	leases map[string]*Lease // held or lapsed, by name; nil = an Acquire is under way
	sight  sight
	next   time.Time   // when timer fires; zero = it does not
	timer  *time.Timer // ends the contexts of what was not renewed in time
	closed bool
	rest   []*Lease // that Close is to release, until the store has heard of it
}

// New makes a keeper that holds nothing. It renews while Run runs, or whenever Round is called.
func New(conf Config) (*Keeper, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure keeper: %w", err)
	}
	k := &Keeper{conf: conf, leases: map[string]*Lease{}}
	k.sight = sight{
		width: conf.Margin / 3, jump: conf.Margin / 3, gap: max(conf.TTL/3, conf.Beat*3/2),
	}
	k.timer = time.AfterFunc(conf.TTL, k.lapse)
	k.timer.Stop()
	return k, nil
}

// Run does a round every beat until ctx ends, then returns nil. What is held stays so until it
// expires: see Close.
func (k *Keeper) Run(ctx context.Context) error {
	beat := time.NewTicker(k.conf.Beat)
	defer beat.Stop()
	for {
		if err := k.Round(ctx, time.Now()); err != nil && ctx.Err() == nil {
			k.conf.Log.Error("renew leases", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
	}
}

// Round renews all that is held or lapsed, in one call of the store; for nothing, too, because
// whoever wants to take from the dead must have watched the store. now is the time before the call.
// What the store no longer counts as this keeper's is over: ErrLost.
func (k *Keeper) Round(ctx context.Context, now time.Time) error {
	k.round.Lock()
	defer k.round.Unlock()
	asked, grants := k.all()
	answer, err := k.call(ctx, func(ctx context.Context) (Answer, error) {
		return k.conf.Store.Renew(ctx, grants, k.conf.TTL)
	})
	if err != nil {
		return fmt.Errorf("renew %d leases: %w", len(grants), err)
	}
	answered := time.Now()
	kept := make(map[string]int64, len(answer.Grants))
	for _, g := range answer.Grants {
		kept[g.Name] = g.Token
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sight.see(now, answered, answer.Now)
	for _, l := range asked {
		switch {
		case l.over != nil: // released meanwhile
		case kept[l.name] == l.token:
			l.extend(k.deadline(now), answered)
		default:
			l.end(ErrLost)
			delete(k.leases, l.name)
		}
	}
	k.arm()
	return nil
}

// all is what is to be renewed, by name, and how the store is asked for it.
func (k *Keeper) all() ([]*Lease, []Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*Lease, 0, len(k.leases))
	for _, l := range k.leases {
		if l != nil {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, byName)
	return list, grantsOf(list)
}

// byName is the order in which leases go to the store, so that two writes of many never wait for
// each other.
func byName(a, b *Lease) int { return strings.Compare(a.name, b.name) }

// call bounds a call of the store: one that hangs must not keep the next one, on another
// connection, from being made in time.
func (k *Keeper) call(
	ctx context.Context, f func(context.Context) (Answer, error),
) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, k.conf.TTL/3)
	defer cancel()
	return f(ctx)
}

// deadline is when a holding ends that was asked for at some time.
func (k *Keeper) deadline(asked time.Time) time.Time {
	return asked.Add(k.conf.TTL - k.conf.Margin)
}

// Want is a name that somebody would like to hold.
type Want struct {
	Name  string
	Value []byte // what the holder says of itself, for others to read
}

// Acquire makes this keeper hold a name. ErrTaken, ErrHeld, ErrClosed; or the store's error, or
// ErrExpired when its answer came too late to hold anything by it: then the store may have given
// the name to this keeper, which gets it when it asks again and is calm.
func (k *Keeper) Acquire(ctx context.Context, name string, value []byte) (*Lease, error) {
	list, err := k.AcquireAll(ctx, Want{name, value})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("acquire %q: %w", name, ErrTaken)
	}
	return list[0], nil
}

// AcquireAll makes this keeper hold those of the names that can be had, and returns them. One call
// of the store. Errors as Acquire.
func (k *Keeper) AcquireAll(ctx context.Context, wants ...Want) ([]*Lease, error) {
	asked := time.Now()
	judge, err := k.ask(wants, asked)
	if err != nil {
		return nil, err
	}
	grants := make([]Grant, len(wants))
	for i, w := range wants {
		grants[i] = Grant{Name: w.Name, Value: w.Value}
	}
	slices.SortFunc(grants, func(a, b Grant) int { return strings.Compare(a.Name, b.Name) })
	answer, err := k.call(ctx, func(ctx context.Context) (Answer, error) {
		return k.conf.Store.Acquire(ctx, k.conf.Holder, grants, k.conf.TTL, judge)
	})
	list, err := k.gain(wants, answer, err, asked)
	if err == nil && k.isClosed() {
		return nil, errors.Join(ErrClosed, k.Release(ctx, list...))
	}
	return list, err
}

// gain makes leases of what the store gave.
func (k *Keeper) gain(wants []Want, answer Answer, err error, asked time.Time) ([]*Lease, error) {
	answered := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range wants {
		delete(k.leases, w.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %d leases: %w", len(wants), err)
	}
	k.sight.see(asked, answered, answer.Now)
	if !answered.Before(k.deadline(asked)) {
		return nil, fmt.Errorf("acquire %d leases: answered after %v: %w", len(wants),
			answered.Sub(asked), ErrExpired)
	}
	list := make([]*Lease, 0, len(answer.Grants))
	for _, g := range answer.Grants {
		l := &Lease{keeper: k, name: g.Name, token: g.Token}
		l.extend(k.deadline(asked), answered)
		k.leases[g.Name] = l
		list = append(list, l)
	}
	if k.next.IsZero() && len(list) > 0 { // else something else ends before
		k.wake(k.deadline(asked))
	}
	return list, nil
}

// ask marks names as being asked for, and says until when, by the store's clock, this keeper may
// judge: so an answer from a store whose clock has jumped just now takes nothing from the living,
// nor does a call that was long on its way.
func (k *Keeper) ask(wants []Want, now time.Time) (judge time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return judge, ErrClosed
	}
	for i, w := range wants {
		if _, ok := k.leases[w.Name]; ok {
			for _, w := range wants[:i] {
				delete(k.leases, w.Name)
			}
			return judge, fmt.Errorf("acquire %q: %w", w.Name, ErrHeld)
		}
		k.leases[w.Name] = nil
	}
	return k.judge(now), nil
}

// Judge is the latest time by the store's clock at which a call made now may take what has expired:
// zero while this keeper is not calm. Acquire heeds it by itself; it is for who asks the store for
// what this keeper does not renew.
func (k *Keeper) Judge(now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.judge(now)
}

func (k *Keeper) judge(now time.Time) (until time.Time) {
	switch {
	case k.conf.Alone:
		until = time.Unix(1<<40, 0)
	case k.calm(now):
		until = k.sight.latest(now)
	}
	return until
}

func (k *Keeper) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// Calm tells whether this keeper may take others for dead when the store says that their leases
// have expired: for a whole TTL it has heard the store without a gap, and the store's clock has
// gone as its own. Acquire heeds it by itself.
func (k *Keeper) Calm(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calm(now)
}

func (k *Keeper) calm(now time.Time) bool { return k.conf.Alone || k.sight.calm(now, k.conf.TTL) }

// Release ends leases, in one call of the store: their contexts at once, then the names are free.
// When the store answers with an error, they are free when they expire, or when Release is called
// again. What is over already stays as it is.
func (k *Keeper) Release(ctx context.Context, leases ...*Lease) error {
	return k.release(ctx, leases, false)
}

// Remove is Release for names that nobody will want again: the store forgets them.
func (k *Keeper) Remove(ctx context.Context, leases ...*Lease) error {
	return k.release(ctx, leases, true)
}

func (k *Keeper) release(ctx context.Context, leases []*Lease, remove bool) error {
	k.mu.Lock()
	var mine []*Lease
	for _, l := range leases {
		if l.over == nil {
			l.end(ErrReleased)
			delete(k.leases, l.name)
		}
		if l.over == ErrReleased && !l.ended {
			mine = append(mine, l)
		}
	}
	slices.SortFunc(mine, byName)
	grants := grantsOf(mine)
	k.mu.Unlock()
	if len(mine) == 0 {
		return nil
	}
	_, err := k.call(ctx, func(ctx context.Context) (Answer, error) {
		return Answer{}, k.conf.Store.End(ctx, grants, remove)
	})
	if err != nil {
		return fmt.Errorf("end %d leases: %w", len(mine), err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range mine {
		l.ended = true
	}
	return nil
}

// Close releases all that is held, in one call of the store; the keeper acquires nothing any more.
// After an error it may be called again.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true // first: who acquires just now then releases it itself
	k.mu.Unlock()
	held, _ := k.all()
	k.mu.Lock()
	k.rest = append(k.rest, held...)
	rest := slices.Clone(k.rest)
	k.mu.Unlock()
	return k.Release(ctx, rest...) // what the store has heard of already it passes over
}

// arm sets the timer to the earliest end of a holding. The lock is held, here and below.
func (k *Keeper) arm() {
	var first time.Time
	for _, l := range k.leases {
		if l != nil && !l.lapsed() && (first.IsZero() || l.deadline.Before(first)) {
			first = l.deadline
		}
	}
	k.wake(first)
}

// wake sets the timer; zero stops it.
func (k *Keeper) wake(at time.Time) {
	switch {
	case at.Equal(k.next):
	case at.IsZero():
		k.timer.Stop()
	default:
		k.timer.Reset(time.Until(at))
	}
	k.next = at
}

// lapse ends the contexts of what was not renewed in time.
func (k *Keeper) lapse() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, l := range k.leases {
		if l != nil && !l.lapsed() && !now.Before(l.deadline) {
			l.cancel(ErrExpired)
		}
	}
	k.next = time.Time{}
	k.arm()
}
