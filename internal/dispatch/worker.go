package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// worker is what this node knows of one worker.
type worker struct {
	memory      *memory // that it is in
	name        string
	incarnation string // "" before its first sign with one
	beats       bool   // it beats, so its silence means something
	measured    bool   // capacity is what its last beat said
	capacity    float64
	labels      map[string]string
	zone        string
	build       string // of its program
	shares      task.Load
	jobs        int
	reserved    task.Units // capacity that its jobs take
	// it serves groups, as its last beat said; Jobs are told when it falls silent
	serves bool
	// it is to give up work, as an operator said: what, says given
	drained bool
	given   store.Drain
	taken   bool      // its time was up, and by then or since it had no more than its part
	left    bool      // it said that it leaves, and nothing was heard of it since
	gone    string    // the start that said so: what it asked before may come in later
	wordAt  time.Time // when that was said here last: what the store said before is out of date

	out     []*item   // the items that it has in hands, in no order
	parcels []*parcel // the plain tasks that it has in hands, and some of those items, in no order
	plain   int       // how many plain tasks those are
	haste   haste     // how soon it ended what it had of queues with limits
	waiting []*waiter
	counted int // room that a demand under way has counted

	seen time.Time // the last sign of life
	// its silence counts from here at the earliest: before, it could not be heard
	excused  time.Time
	heard    time.Time     // the last one that this node itself heard
	reported time.Time     // the last one that the other nodes were told of
	remote   bool          // it holds tasks that another node handed out
	spared   bool          // the mass-silence brake excused it once
	told     time.Duration // until its next beat, as the last answer said
	// the shortest silence limit of the queues that it holds from; 0 = not known
	patience time.Duration
	// how long it may go unheard before it has stopped its jobs; 0 = limits.DefaultSilence
	jobSilence time.Duration
	// when it asked for tasks of which queues last, at most limits.MaxQueues of them
	asked map[string]time.Time

	version int
	news    chan struct{} // closed at the next change
}

// handKey names one hand-out, as a worker's beat does.
type handKey struct {
	id              task.ID
	span, spanToken int64
	seq             int32
}

func keyOf(id task.ID, t task.Token) handKey { return handKey{id, t.Span, t.SpanToken, t.Seq} }

// worker is what is kept of the named worker, made when it is first heard of.
func (m *memory) worker(name string, now time.Time) *worker {
	w := m.workers[name]
	if w == nil {
		w = &worker{
			memory: m, name: name, seen: now, told: m.conf.BeatEvery, news: make(chan struct{}),
		}
		m.workers[name] = w
	}
	return w
}

// touch notes a sign of life.
func (w *worker) touch(now time.Time) {
	w.seen, w.heard, w.spared, w.left = now, now, false, false
}

// room is how many more tasks the worker may be given: by its capacity, once a beat stated it;
// until then by what it asks for.
func (w *worker) room() int {
	switch {
	case w.draining():
		return 0
	case !w.measured:
		return limits.MaxHold
	}
	return w.lanes() - w.hands()
}

// lanes is how many tasks the worker may have in hands beside its jobs; below 0 where these take
// more than it is to carry.
func (w *worker) lanes() int {
	return int(max(w.capacity-w.given.Shed.Float(), 0) - w.reserved.Float())
}

// draining tells whether the worker is to take nothing new.
func (w *worker) draining() bool { return w.drained && w.given.Whole() }

// hands is how many tasks the worker has in hands.
func (w *worker) hands() int { return len(w.out) + w.plain }

// reorder puts the worker's waiting holds where they belong after its free capacity changed.
func (w *worker) reorder() {
	for _, wt := range w.waiting {
		for _, m := range wt.members {
			m.queue.waiting.Set(m.place, wt.load())
		}
	}
}

// changed wakes a beat that waits for news of the worker.
func (w *worker) changed() {
	w.version++
	w.memory.do.ended = append(w.memory.do.ended, w.news)
	w.news = make(chan struct{})
}

// over tells whether a start of the worker has said that it leaves. It asks for nothing after that,
// but what it asked before and gave up may be read later: that is no sign of life.
func (w *worker) over(incarnation string) bool {
	return w.left && incarnation != "" && incarnation == w.gone
}

// retire ends a worker's holds; what it had in hands is given back elsewhere. It still counts as
// one that beats: what can't be given back now is found by its silence.
func (w *worker) retire() {
	w.dismiss()
	w.measured, w.incarnation, w.capacity, w.left = false, "", 0, true
	w.asked = nil
}

// dismiss ends a worker's holds with nothing.
func (w *worker) dismiss() {
	for _, wt := range slices.Clone(w.waiting) {
		wt.leave()
		w.memory.do.holds = append(w.memory.do.holds, wt)
	}
}

// sorted is what the worker has in hands, oldest id first; a list of its own, because what is done
// with them changes the hands.
func (w *worker) sorted() []*item {
	w.lookInto(w.parcels...)
	return slices.SortedFunc(slices.Values(w.out), func(a, b *item) int {
		return a.id.Compare(b.id)
	})
}

// lookInto makes items of the plain tasks in the worker's hands that are in parcels: they are to be
// spoken of one by one.
func (w *worker) lookInto(parcels ...*parcel) {
	for _, p := range parcels {
		for _, s := range p.out() {
			s.item()
		}
	}
}

// match serves the holds of a worker that has room again.
func (w *worker) match(now time.Time) {
	for _, wt := range slices.Clone(w.waiting) {
		wt.match(now)
	}
}

// holdsFrom notes from which queues a worker holds: the most impatient of them decides how often it
// should beat.
func (w *worker) holdsFrom(queues []*queue, now time.Time) {
	w.patience = 0
	for _, q := range queues {
		if w.patience == 0 || q.conf.Silence < w.patience {
			w.patience = q.conf.Silence
		}
		w.asks(q.name, now)
	}
}

// asks notes that the worker asks for tasks of a queue. Of more than limits.MaxQueues the one is
// forgotten that it asked for longest ago.
func (w *worker) asks(queue string, now time.Time) {
	if w.asked == nil {
		w.asked = map[string]time.Time{}
	}
	w.asked[queue] = now
	if len(w.asked) <= limits.MaxQueues {
		return
	}
	oldest := queue
	for name, at := range w.asked {
		if at.Before(w.asked[oldest]) || at.Equal(w.asked[oldest]) && name < oldest {
			oldest = name
		}
	}
	delete(w.asked, oldest)
}

// limit is how long the worker may be silent before it has lost a task of q: the queue's limit, but
// never less than three of the beats that it was asked for.
func (w *worker) limit(q *queue) time.Duration { return max(q.conf.Silence, 3*w.told) }

// silent is how long nothing was heard of the worker although it could have been.
func (w *worker) silent(now time.Time) time.Duration {
	if w.excused.After(w.seen) {
		return now.Sub(w.excused)
	}
	return now.Sub(w.seen)
}

// overdue is what the worker has lost by its silence, oldest id first.
func (w *worker) overdue(now time.Time) (lost []*item) {
	silent := w.silent(now)
	if !w.beats || silent < 3*w.told {
		return nil
	}
	for _, it := range w.sorted() {
		if silent >= w.limit(it.queue) {
			lost = append(lost, it)
		}
	}
	return lost
}

// away tells whether a worker that serves groups is silent for so long that it has stopped its jobs
// by itself.
func (w *worker) away(now time.Time) bool {
	return w.serves && w.silent(now) >= max(cmp.Or(w.jobSilence, limits.DefaultSilence), 3*w.told)
}

// askPatience learns how long workers may go unheard that serve groups and missed some beats.
func (ws workers) askPatience(
	now time.Time, patience func(worker string) (silence, beat time.Duration),
) {
	for name, w := range ws {
		if w.serves && w.silent(now) >= 2*w.told {
			w.jobSilence, _ = patience(name)
		}
	}
}

// judge finds what silent workers held. When many fall silent at once it is more likely this node,
// or the network: they get one more limit, and spared says how many they are. now is when the round
// began, by which silence counts, and at is the present.
func (m *memory) judge(now, at time.Time) (spared, active int) {
	const least, share = 5, 0.3
	type loss struct {
		worker *worker
		items  []*item
		away   bool
	}
	var losses []loss
	for _, w := range m.workers {
		if !w.beats || w.hands() == 0 && !w.serves {
			continue
		}
		active++
		if l := (loss{w, w.overdue(now), w.away(now)}); len(l.items) > 0 || l.away {
			losses = append(losses, l)
		}
	}
	slices.SortFunc(losses, func(a, b loss) int {
		return strings.Compare(a.worker.name, b.worker.name)
	})
	for _, w := range m.workers.unheard(now) { // else what it loses could come back to it by a hold
		w.dismiss()
	}
	brake := len(losses) >= least && float64(len(losses)) > share*float64(active)
	for _, l := range losses {
		if brake && !l.worker.spared {
			l.worker.spared, l.worker.excused = true, now
			continue
		}
		for _, it := range l.items {
			it.end(task.KindLost, "its worker fell silent", at)
		}
		if l.away {
			l.worker.serves, l.worker.jobs = false, 0
			m.do.away = append(m.do.away, l.worker.name)
		}
	}
	if brake {
		return len(losses), active
	}
	return 0, active
}

// unheard are the workers whose holds wait though nothing was heard of them for their whole limit,
// by name. One that lives asks again when its hold ends with nothing.
func (ws workers) unheard(now time.Time) (list []*worker) {
	for _, w := range ws {
		if w.beats && len(w.waiting) > 0 && w.silent(now) >= max(w.patience, 3*w.told) {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b *worker) int { return strings.Compare(a.name, b.name) })
	return list
}

// pardon lets every worker's silence count from now, as rounds stood still: while this process was
// stopped it could not have heard them, and while the store was slow other nodes could not have
// said so. One that gave no sign of life since it was pardoned is not pardoned again: else nobody
// would find the dead while each round is slow.
func (ws workers) pardon(now time.Time) {
	for _, w := range ws {
		if !w.excused.After(w.seen) {
			w.excused = now
		}
	}
}

// meet takes in which start of a worker holds tasks: one that has an incarnation beats, even if no
// beat was heard here yet.
func (w *worker) meet(incarnation string, now time.Time) {
	if incarnation == "" || incarnation == w.incarnation {
		return
	}
	before := w.incarnation
	w.incarnation, w.beats = incarnation, true
	if before == "" {
		return
	}
	w.measured, w.asked = false, nil
	for _, it := range w.sorted() {
		if it.incarnation == before {
			it.end(task.KindLost, "its worker started again", now)
		}
	}
}

// workers are those that this node knows, by name.
type workers map[string]*worker
