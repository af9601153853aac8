package sim

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/scheduler"
)

// How calls over the bus end without an answer of the other side.
var (
	errKilled  = errors.New("this process was killed")
	errRefused = errors.New("connection refused") // nothing was done
	errSilent  = errors.New("no answer in time")  // perhaps it was done
)

// machine is what pauses and partitions hit.
type machine struct {
	name   string
	paused time.Time // nothing comes in or goes out until then
}

// process is one life on a machine, from a start to a kill. Its context is its life.
type process struct {
	*machine
	life    int
	ctx     context.Context
	end     context.CancelFunc
	died    time.Time            // zero while it lives; only the world reads and writes it
	orderly bool                 // it was stopped in order
	leave   chan struct{}        // of a node; closed: it is to end in order
	serves  atomic.Pointer[peer] // of a node that has joined

	mu   sync.Mutex
	said map[string]int // how often, by what was said
}

// count numbers what a process says by what it says: a call that was given up and one that repeats
// it are two.
func (p *process) count(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said == nil {
		p.said = map[string]int{}
	}
	p.said[text]++
	return p.said[text]
}

// peer is what a node serves.
type peer struct {
	*dispatch.Dispatcher
	rounds *scheduler.Scheduler
	since  time.Time
}

func (p *process) String() string { return fmt.Sprintf("%s.%d", p.name, p.life) }

// kill ends a process at once, as kill -9 does: nobody hears of it any more. Only the world calls
// it.
func (p *process) kill() {
	if !p.dead() {
		p.died = time.Now()
		p.end()
	}
}

func (p *process) dead() bool { return p.ctx.Err() != nil }

// message is something on its way over the bus.
type message struct {
	from, to *process // nil: the world itself
	text     string   // what it says: traces and sorts
	call     int      // of a call or its answer: which of those that say the same; sorts, too
	due      time.Time
	nr       int           // in which order fates were drawn
	after    time.Duration // of a sure message: until it arrives
	// no fault touches it: an alarm clock of a process' own, which only its pause delays
	sure    bool
	doubles bool   // a late copy may follow
	left    func() // called when it leaves; nil = nothing
	arrive  func()
	refused func() // called instead when nobody lives there any more; nil = nothing
	worked  bool   // the answer of a call that worked
}

// bus carries everything that leaves a process, one message at a time: it waits until all else is
// blocked, sorts what was posted meanwhile, draws a fate for each from its luck, and then moves to
// the next arrival. So a run depends on nothing but the seed, however the goroutines inside the
// processes are scheduled.
type bus struct {
	luck   *rand.Rand
	faults faults
	cuts   map[[2]string]bool // from, to: nothing passes
	trace  *trace
	acted  func() // called after every arrival

	sometimes func(what string) // counts what should happen now and then

	sky  sky // posted and fated, by due time
	nr   int
	acts int

	mu     sync.Mutex
	posted []*message
	hint   chan struct{} // of size 1: something was posted

	serving sync.WaitGroup // calls that block
}

// sky is a heap of messages, the next to arrive first.
type sky []*message

func (s sky) Len() int { return len(s) }
func (s sky) Less(i, j int) bool {
	if !s[i].due.Equal(s[j].due) {
		return s[i].due.Before(s[j].due)
	}
	return s[i].nr < s[j].nr
}
func (s sky) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sky) Push(m any)   { *s = append(*s, m.(*message)) }
func (s *sky) Pop() any {
	last := len(*s) - 1
	m := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return m
}

// post gives a message to the bus. What a dead process says is not heard.
func (b *bus) post(m *message) {
	if m.from != nil && m.from.dead() {
		return
	}
	b.mu.Lock()
	b.posted = append(b.posted, m)
	b.mu.Unlock()
	select {
	case b.hint <- struct{}{}:
	default:
	}
}

// run moves messages until over says so.
func (b *bus) run(over func() bool) {
	for !over() {
		synctest.Wait()
		b.route()
		next := b.sky[0] // there is the world's pulse
		if wait := time.Until(next.due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-b.hint:
			}
			timer.Stop()
			continue
		}
		heap.Pop(&b.sky)
		b.deliver(next)
	}
}

// route draws the fates of what was posted, in an order that only depends on what it says.
func (b *bus) route() {
	b.mu.Lock()
	posted := b.posted
	b.posted = nil
	b.mu.Unlock()
	slices.SortStableFunc(posted, func(x, y *message) int {
		return cmp.Or(cmp.Compare(x.ends(), y.ends()), cmp.Compare(x.text, y.text),
			cmp.Compare(x.call, y.call))
	})
	for _, m := range posted {
		if m.left != nil {
			m.left()
		}
		b.fate(m)
	}
}

// ends are where a message comes from and goes to, as text.
func (m *message) ends() string {
	if m.from == nil {
		return ""
	}
	return m.from.String() + ">" + m.to.String()
}

// fate decides when, how often and whether a message arrives.
func (b *bus) fate(m *message) {
	now := time.Now()
	if m.from != nil && m.from.paused.After(now) {
		now = m.from.paused // it can only say it when it goes on
	}
	if m.sure {
		m.due = now.Add(m.after)
		b.push(m)
		return
	}
	if b.cut(m) || b.chance(b.faults.loss) {
		b.lose(m)
		return
	}
	m.due = now.Add(b.latency())
	b.push(m)
	if m.doubles && b.chance(b.faults.double) {
		again := *m
		again.left, again.doubles = nil, false
		again.due = m.due.Add(b.between(time.Millisecond, 5*time.Second))
		b.push(&again)
	}
}

func (b *bus) cut(m *message) bool { return b.cuts[[2]string{m.from.name, m.to.name}] }

func (b *bus) push(m *message) {
	b.nr++
	m.nr = b.nr
	heap.Push(&b.sky, m)
}

// deliver lets a message arrive, unless its end is paused, cut off or dead.
func (b *bus) deliver(m *message) {
	switch now := time.Now(); {
	case m.to == nil:
	case m.to.paused.After(now):
		m.due = m.to.paused.Add(b.between(0, time.Millisecond))
		b.push(m)
		return
	case !m.sure && b.cut(m):
		b.lose(m)
		return
	case m.to.dead():
		if m.refused != nil {
			m.refused()
		}
		return
	}
	if !strings.HasPrefix(m.text, quiet) {
		b.trace.add("%s %s", m.ends(), m.text)
	}
	b.acts++
	m.arrive()
	b.acted()
}

// lose lets a message never arrive.
func (b *bus) lose(m *message) {
	b.trace.add("lost %s %s", m.ends(), m.text)
	if m.worked {
		b.sometimes("the answer of a call that had worked was lost")
	}
}

// chance is true once in a hundred per cent of the times.
func (b *bus) chance(percent int) bool { return percent > 0 && b.luck.IntN(100) < percent }

// between is a time between two others, to the nanosecond: no two things happen at once.
func (b *bus) between(low, high time.Duration) time.Duration {
	return low + time.Duration(b.luck.Int64N(int64(high-low)+1))
}

func (b *bus) latency() time.Duration {
	if b.chance(b.faults.slow) {
		return b.between(50*time.Millisecond, 4*time.Second)
	}
	return b.between(100*time.Microsecond, 5*time.Millisecond)
}

// later lets the world itself do something after a while.
func (b *bus) later(d time.Duration, text string, do func()) {
	b.post(&message{text: text, sure: true, after: d, arrive: do})
}

// wake lets something happen in a process after a while; its pauses delay it.
func (b *bus) wake(p *process, d time.Duration, text string, do func()) {
	b.post(&message{from: p, to: p, text: text, sure: true, after: d, arrive: do})
}

// quiet begins the texts that the trace does without. They still sort.
const quiet = "~"

// sleep blocks a goroutine of p, which has a name, for d, or longer when p is paused. It says false
// when p is dead.
func (b *bus) sleep(p *process, name string, d time.Duration) bool {
	woken := make(chan struct{})
	b.wake(p, d, quiet+name, func() { close(woken) })
	select {
	case <-woken:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// call is one call from a process to another, and back.
type call[A any] struct {
	from, to *process
	text     string        // verb and arguments, for the trace
	patience time.Duration // then the caller gives up
	doubles  bool          // its request may come twice
	inline   bool          // the callee does not block: it is called by the bus itself
	serve    func(context.Context) (A, error)
	told     func(A) string // the answer, for the trace; nil = nothing

	// What the ledger learns, on the bus' goroutine; nil = nothing.
	sent func()                     // the request leaves the caller
	left func(callee *process, a A) // an answer leaves the callee
	came func(A)                    // an answer reaches the caller
}

// over makes the call on the bus.
func (c call[A]) over(ctx context.Context, b *bus) (A, error) {
	type result struct {
		answer A
		err    error
	}
	var none A
	if c.from.dead() {
		return none, errKilled
	}
	nr := c.from.count(c.to.String() + c.text)
	came := make(chan result, 1)
	var gaveUp atomic.Bool
	put := func(r result) {
		if gaveUp.Load() || len(came) > 0 {
			return // too late, or the answer to a copy
		}
		if c.came != nil && r.err == nil { // before the caller goes on
			c.came(r.answer)
		}
		came <- r
	}
	var hangUps []context.CancelFunc
	b.post(&message{
		from: c.from, to: c.to, text: c.text, call: nr, doubles: c.doubles, left: c.sent,
		refused: func() {
			put(result{err: errRefused})
		},
		arrive: func() {
			served, hangUp := context.WithCancel(c.to.ctx)
			hangUps = append(hangUps, hangUp)
			serve := func() {
				defer hangUp()
				a, err := c.serve(served)
				m := c.answer(a, err, func() { put(result{a, err}) })
				m.call = nr
				b.post(m)
			}
			if c.inline {
				serve()
				return
			}
			b.serving.Go(serve)
		},
	})
	timer := time.NewTimer(c.patience + spread(c.text))
	defer timer.Stop()
	var err error
	select {
	case r := <-came:
		return r.answer, r.err
	case <-c.from.ctx.Done():
		return none, errKilled
	case <-timer.C:
		err = errSilent
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	gaveUp.Store(true)
	if !c.inline {
		b.post(&message{from: c.from, to: c.to, text: "hang up " + c.text, call: nr,
			arrive: func() {
				for _, hangUp := range hangUps {
					hangUp()
				}
			}})
	}
	return none, err
}

// spread is a moment that hangs on a text: two calls of one instant are not given up in one
// instant.
func spread(text string) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(text))
	return time.Duration(h.Sum32() % 1_000_000)
}

// answer is the message that brings an answer back.
func (c call[A]) answer(a A, err error, arrive func()) *message {
	m := &message{from: c.to, to: c.from, text: "re " + c.text, worked: err == nil, arrive: arrive}
	switch {
	case err != nil:
		m.text += " -> " + err.Error()
	case c.told != nil:
		m.text += " -> " + c.told(a)
	}
	if c.left != nil && err == nil {
		m.left = func() { c.left(c.to, a) }
	}
	return m
}
