package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// remembered is how long the store remembers a worker's drain.
const remembered = 365 * 24 * time.Hour

// worker is what this node knows of one worker.
type worker struct {
	name        string
	incarnation string // "" before its first beat
	beats       bool   // it beats, so its silence means something
	measured    bool   // capacity is what its last beat said
	capacity    float64
	labels      map[string]string
	zone        string
	shares      task.Load
	jobs        int
	draining    bool
	lease       rows.Lease // of the remembered drain

	out       []*item              // what it has in hands, in no order
	cancelled map[task.ID]struct{} // hand-outs to be told of with the next beat
	waiting   []*waiter

	seen    time.Time
	silence time.Duration // the shortest limit of the queues that it works for
	silent  *tick.Timer   // fires when it was silent for that long
	suspect bool          // it fired; the next round judges
	spared  bool          // the mass-silence brake gave it one more limit

	version int
	news    chan struct{} // closed at the next change
}

// worker is what is kept of the named worker, made when it is first heard of.
func (d *Dispatcher) worker(name string, now time.Time) *worker {
	w := d.workers[name]
	if w == nil {
		w = &worker{name: name, seen: now, news: make(chan struct{})}
		d.workers[name] = w
	}
	return w
}

// touch notes a sign of life.
func (w *worker) touch(now time.Time) {
	w.seen, w.suspect, w.spared = now, false, false
	if w.silent != nil {
		w.silent.Reset(w.silence)
	}
}

// room is how many more tasks the worker may be given.
func (w *worker) room() int {
	switch {
	case w.draining:
		return 0
	case !w.measured:
		return task.MaxHold
	}
	return int(w.capacity) - len(w.out)
}

// reorder puts the worker's waiting holds where they belong after its free capacity changed.
func (w *worker) reorder() {
	for _, wt := range w.waiting {
		for _, m := range wt.members {
			m.queue.waiting.Set(m.place, wt.load())
		}
	}
}

// changed wakes a beat that waits for news.
func (w *worker) changed() {
	w.version++
	close(w.news)
	w.news = make(chan struct{})
}

// retire ends a worker's holds and what was known of its life; what it had in hands is given back elsewhere.
func (w *worker) retire() {
	for _, wt := range slices.Clone(w.waiting) {
		wt.leave()
		close(wt.ready)
	}
	w.silent.Stop()
	w.silent, w.silence, w.suspect = nil, 0, false
	w.beats, w.measured, w.incarnation, w.capacity = false, false, "", 0
}

// matchWorker serves the holds of a worker that has room again.
func (d *Dispatcher) matchWorker(w *worker, now time.Time, a *answers) {
	for _, wt := range slices.Clone(w.waiting) {
		d.matchWaiter(wt, now, a)
	}
}

// listen starts to listen for the worker's silence, for as short as the queue demands.
func (d *Dispatcher) listen(w *worker, q *queue) {
	if d.closed {
		return
	}
	if w.silence == 0 || q.conf.Silence < w.silence {
		w.silence = q.conf.Silence
	}
	if w.silent != nil {
		w.silent.Reset(w.silence)
		return
	}
	w.silent = d.conf.Clock.After(w.silence, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if idle := time.Since(w.seen); idle < w.silence {
			w.silent.Reset(w.silence - idle)
		} else {
			w.suspect = true
		}
	})
}

// Beat is a worker's sign of life: it says what the worker holds and is answered what to do with it. With b.Wait it
// answers early when there is news after b.Version.
func (d *Dispatcher) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	if err := checkBeat(b); err != nil {
		return task.BeatAnswer{}, err
	}
	w, unknown, err := d.hear(b)
	if err != nil {
		return task.BeatAnswer{}, err
	}
	known, err := d.askStore(ctx, unknown)
	if err != nil {
		return task.BeatAnswer{}, err
	}
	if b.Wait > 0 {
		d.awaitNews(ctx, w, b)
	}
	return d.answerBeat(w, b, known), nil
}

func checkBeat(b task.Beat) error {
	var e task.InvalidError
	if !task.ValidName(b.Worker) {
		e.Add("path.worker", "%.40q %s", b.Worker, task.NameRule)
	}
	if !task.ValidText(b.Incarnation, task.MaxName) || b.Incarnation == "" {
		e.Add("body.incarnation", "must be 1 to %d bytes of printable UTF-8, new with every start", task.MaxName)
	}
	if !(b.Capacity >= 0 && b.Capacity <= 1e6) {
		e.Add("body.capacity", "must be 0 to 1000000")
	}
	if !(b.Load.CPU >= 0 && b.Load.CPU <= 1) || !(b.Load.Memory >= 0 && b.Load.Memory <= 1) {
		e.Add("body.load", "cpu and memory are shares, 0 to 1")
	}
	if len(b.Labels) > 64 {
		e.Add("body.labels", "at most 64")
	}
	for _, k := range slices.Sorted(maps.Keys(b.Labels)) {
		if !task.ValidText(k, task.MaxName) || !task.ValidText(b.Labels[k], task.MaxKey) {
			e.Add("body.labels", "%.40q: names and values must be short printable UTF-8", k)
		}
	}
	if len(b.Tasks) > task.MaxReports {
		e.Add("body.tasks", "at most %d", task.MaxReports)
	}
	if b.Wait < 0 || b.Wait > task.MaxWait {
		e.Add("query.wait", "must be 0s to %v", task.MaxWait)
	}
	return e.Err()
}

// hear takes in what a beat says, and returns the hand-outs that memory knows nothing of.
func (d *Dispatcher) hear(b task.Beat) (w *worker, unknown []task.Held, err error) {
	now := time.Now()
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	if d.closed {
		return nil, nil, ErrClosed
	}
	w = d.worker(b.Worker, now)
	w.touch(now)
	names := make(map[task.ID]task.Token, len(b.Tasks))
	for _, h := range b.Tasks {
		if t, err := task.ParseToken(h.Token); err == nil {
			names[h.ID] = t
			if it := d.items[h.ID]; it == nil {
				if _, cancelled := w.cancelled[h.ID]; !cancelled {
					unknown = append(unknown, h)
				}
			}
		}
	}
	restarted := w.incarnation != "" && w.incarnation != b.Incarnation
	w.incarnation, w.beats, w.measured, w.capacity = b.Incarnation, true, true, b.Capacity
	w.labels, w.zone, w.shares, w.jobs = b.Labels, b.Zone, b.Load, len(b.Jobs)
	d.compare(w, names, restarted, b.Leaving)
	if b.Leaving {
		w.retire()
		return w, unknown, nil
	}
	for _, it := range w.out {
		d.listen(w, it.queue)
	}
	w.reorder()
	d.matchWorker(w, now, &a)
	return w, unknown, nil
}

// meet takes in which start of a worker holds tasks: one that has an incarnation beats, even if no beat was heard here yet.
func (d *Dispatcher) meet(w *worker, incarnation string) {
	if incarnation == "" || incarnation == w.incarnation {
		return
	}
	before := w.incarnation
	w.incarnation, w.beats = incarnation, true
	if before == "" {
		return
	}
	w.measured = false
	for _, it := range w.sorted() {
		if it.incarnation == before {
			d.find(it, task.KindLost, "its worker started again")
		}
	}
}

// compare holds what a worker says it has against what it was given. A hand-out missing from two beats that began after its
// answer was written is lost; so is, at once, what an earlier incarnation had; and a worker that leaves gives everything back.
func (d *Dispatcher) compare(w *worker, names map[task.ID]task.Token, restarted, leaving bool) {
	for _, it := range w.sorted() {
		token, named := names[it.id]
		named = named && token.Span == it.token.Span && token.SpanToken == it.token.SpanToken && token.Seq == it.token.Seq
		switch {
		case leaving:
			d.find(it, task.KindRelease, "its worker left")
		case named:
			it.missed, it.written, it.incarnation = 0, true, w.incarnation
		case restarted && it.incarnation != w.incarnation:
			d.find(it, task.KindLost, "its worker started again")
		case it.written:
			if it.missed++; it.missed >= 2 {
				d.find(it, task.KindLost, "missing from two beats of its worker")
			}
		}
	}
}

// sorted is what the worker has in hands, oldest id first; a list of its own, because what is done with them changes the hands.
func (w *worker) sorted() []*item {
	return slices.SortedFunc(slices.Values(w.out), func(a, b *item) int { return a.id.Compare(b.id) })
}

// askStore finds out about hand-outs that memory does not know: after a restart a worker may still run what an earlier process
// handed out. It answers which of them still stand.
func (d *Dispatcher) askStore(ctx context.Context, unknown []task.Held) (stands map[task.ID]bool, err error) {
	if len(unknown) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(unknown))
	for i, h := range unknown {
		ids[i] = h.ID
	}
	stood, err := d.store.Stand(ctx, ids)
	if err != nil {
		d.note(err)
		return nil, fmt.Errorf("read where tasks stand: %w", err)
	}
	stands = make(map[task.ID]bool, len(stood))
	for i := range stood {
		t, _ := task.ParseToken(unknown[i].Token)
		stands[unknown[i].ID] = tokenStands(&stood[i], t)
	}
	return stands, nil
}

// tokenStands tells whether a report with the token would be recorded now: the check of the settle transaction, as a forecast.
func tokenStands(s *rows.Stood, t task.Token) bool {
	if !s.Found || s.Final || s.Seq != t.Seq {
		return false
	}
	if s.Running != nil {
		return s.Running.Token == t.SpanToken
	}
	return s.Owner.ID == t.Span && s.Owner.Token == t.SpanToken
}

func (d *Dispatcher) awaitNews(ctx context.Context, w *worker, b task.Beat) {
	d.mu.Lock()
	news, same := w.news, strconv.Itoa(w.version) == b.Version
	d.mu.Unlock()
	if !same {
		return
	}
	timer := time.NewTimer(b.Wait)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	case <-d.stop:
	}
}

// answerBeat says what to do with each hand-out that a beat named.
func (d *Dispatcher) answerBeat(w *worker, b task.Beat, stands map[task.ID]bool) task.BeatAnswer {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := task.BeatAnswer{Version: strconv.Itoa(w.version), Beat: d.conf.BeatEvery, Tasks: make([]task.HeldAction, len(b.Tasks))}
	for i, h := range b.Tasks {
		action := task.ActionStale
		t, err := task.ParseToken(h.Token)
		it := d.items[h.ID]
		_, cancelled := w.cancelled[h.ID]
		switch {
		case err != nil:
		case cancelled:
			action = task.ActionCancel
		case it != nil && (it.place == out || it.place == settling) && it.token.Span == t.Span && it.token.SpanToken == t.SpanToken && it.seq == t.Seq:
			action = task.ActionContinue
		case it == nil && stands[h.ID]:
			action = task.ActionContinue
		}
		answer.Tasks[i] = task.HeldAction{ID: h.ID, Action: action}
	}
	named := make(map[task.ID]struct{}, len(b.Tasks))
	for _, h := range b.Tasks {
		named[h.ID] = struct{}{}
	}
	for id := range w.cancelled { // it knows, or no longer has it
		if _, told := named[id]; !told {
			delete(w.cancelled, id)
		}
	}
	return answer
}

// judge finds what silent workers held. When many fall silent at once it is more likely this node, or the network: they get one
// more limit, and an alarm is logged.
func (d *Dispatcher) judge(now time.Time) {
	const least, share = 5, 0.3
	var suspects []*worker
	active := 0
	for _, w := range d.workers {
		if !w.beats {
			continue
		}
		active++
		if w.suspect && len(w.out) > 0 {
			suspects = append(suspects, w)
		}
	}
	slices.SortFunc(suspects, func(a, b *worker) int { return strings.Compare(a.name, b.name) })
	brake := len(suspects) >= least && float64(len(suspects)) > share*float64(active)
	for _, w := range suspects {
		if brake && !w.spared {
			w.spared, w.suspect = true, false
			w.silent.Reset(w.silence)
			continue
		}
		for _, it := range w.sorted() {
			if now.Sub(w.seen) >= it.queue.conf.Silence {
				d.find(it, task.KindLost, "its worker fell silent")
			}
		}
		if w.suspect = false; len(w.out) > 0 { // the rest belongs to queues with more patience
			w.silent.Reset(w.silence)
		}
	}
	if brake {
		d.log.Error("many workers are silent at once: waiting for one more limit", "silent", len(suspects), "workers", active)
	}
}

// pardon lets every worker's silence begin anew: this process itself was stopped, so it could not have heard them.
func (d *Dispatcher) pardon(now time.Time) {
	for _, w := range d.workers {
		w.touch(now)
	}
}

// recallWorkers reads what operators said of workers before this process started.
func (d *Dispatcher) recallWorkers(ctx context.Context) error {
	leases, err := d.store.LeasesOf(ctx, "worker/")
	if err != nil {
		return fmt.Errorf("read workers: %w", err)
	}
	for _, l := range leases {
		w := d.worker(strings.TrimPrefix(l.Name, "worker/"), time.Time{})
		w.lease = l
		var said struct{ Draining bool }
		if err := json.Unmarshal(l.Value, &said); err != nil {
			return fmt.Errorf("read %q: %w", l.Name, err)
		}
		w.draining = said.Draining
	}
	return nil
}

// Workers lists what this node knows of workers, by name.
func (d *Dispatcher) Workers(context.Context) ([]task.Worker, error) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]task.Worker, 0, len(d.workers))
	for _, name := range slices.Sorted(maps.Keys(d.workers)) {
		w := d.workers[name]
		limit := w.silence
		if limit == 0 {
			limit = task.DefaultSilence
		}
		capacity := w.capacity
		list = append(list, task.Worker{
			Name: w.name, Node: d.conf.Holder.Node, Active: len(w.waiting) > 0 || now.Sub(w.seen) < limit, Draining: w.draining, Capacity: capacity,
			Load: w.shares, Labels: maps.Clone(w.labels), Zone: w.zone, Running: len(w.out), Jobs: w.jobs, Seen: w.seen,
		})
	}
	return list, nil
}

// DrainWorker makes a worker take nothing new, or lets it take again. It is remembered across restarts.
func (d *Dispatcher) DrainWorker(ctx context.Context, name string, drain bool) error {
	d.mu.Lock()
	w := d.workers[name]
	d.mu.Unlock()
	if w == nil {
		return fmt.Errorf("drain worker %q: %w", name, rows.ErrNotFound)
	}
	value, err := json.Marshal(struct{ Draining bool }{drain})
	if err != nil {
		return fmt.Errorf("encode drain of %q: %w", name, err)
	}
	lease, err := d.store.Acquire(ctx, "worker/"+name, d.conf.Holder.Node, remembered, value)
	if err != nil {
		d.note(err)
		return fmt.Errorf("remember drain of worker %q: %w", name, err)
	}
	var a answers
	d.mu.Lock()
	w.draining, w.lease = drain, lease
	w.reorder()
	d.matchWorker(w, time.Now(), &a)
	d.mu.Unlock()
	a.send()
	return nil
}

// DeleteWorker gives back what a worker holds and forgets it.
func (d *Dispatcher) DeleteWorker(ctx context.Context, name string) error {
	d.mu.Lock()
	w := d.workers[name]
	if w == nil {
		d.mu.Unlock()
		return fmt.Errorf("delete worker %q: %w", name, rows.ErrNotFound)
	}
	d.compare(w, nil, false, true)
	w.retire()
	delete(d.workers, name)
	lease := w.lease
	d.mu.Unlock()
	if lease.Token == 0 {
		return nil
	}
	if err := d.store.End(ctx, lease.Name, lease.Token, true); err != nil {
		d.note(err)
		return fmt.Errorf("forget worker %q: %w", name, err)
	}
	return nil
}
