package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

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
	d.abroad(w, known)
	if b.Leaving {
		if err := d.leave(ctx, b, known); err != nil {
			return task.BeatAnswer{}, err
		}
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
	named := make(map[handKey]struct{}, len(b.Tasks))
	for _, h := range b.Tasks {
		t, err := task.ParseToken(h.Token)
		if err != nil || t != t.Sealed(d.conf.Secret, h.ID) {
			continue
		}
		key := keyOf(h.ID, t)
		named[key] = struct{}{}
		it := d.items[h.ID]
		if _, cancelled := w.cancelled[key]; it == nil && !cancelled {
			unknown = append(unknown, h)
		} else if it != nil && it.place == out && keyOf(it.id, it.token) == key {
			it.progress, it.note = h.Progress, h.Note
		}
	}
	restarted := w.incarnation != "" && w.incarnation != b.Incarnation
	w.incarnation, w.beats, w.measured, w.capacity = b.Incarnation, true, true, b.Capacity
	w.labels, w.zone, w.shares, w.jobs = b.Labels, b.Zone, b.Load, len(b.Jobs)
	d.compare(w, named, restarted, b.Leaving)
	if b.Leaving {
		w.retire()
		return w, unknown, nil
	}
	w.reorder()
	d.matchWorker(w, now, &a)
	return w, unknown, nil
}

// compare holds what a worker says it has against what it was given. A hand-out missing from two beats that began after its
// answer was written is lost; so is, at once, what an earlier incarnation had; and a worker that leaves gives everything back.
func (d *Dispatcher) compare(w *worker, named map[handKey]struct{}, restarted, leaving bool) {
	for _, it := range w.sorted() {
		_, has := named[keyOf(it.id, it.token)]
		switch {
		case leaving:
			d.find(it, task.KindRelease, "its worker left")
		case has:
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

// askStore finds out about hand-outs that memory does not know: after a restart a worker may still run what an earlier process
// handed out. It answers which of them still stand.
func (d *Dispatcher) askStore(ctx context.Context, unknown []task.Held) (stands map[handKey]bool, err error) {
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
	stands = make(map[handKey]bool, len(stood))
	for i := range stood {
		if t, err := task.ParseToken(unknown[i].Token); err == nil {
			stands[keyOf(unknown[i].ID, t)] = tokenStands(&stood[i], t)
		}
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
func (d *Dispatcher) answerBeat(w *worker, b task.Beat, stands map[handKey]bool) task.BeatAnswer {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.told = d.conf.BeatEvery
	if w.patience > 0 {
		w.told = min(w.told, w.patience/3)
	}
	answer := task.BeatAnswer{Version: strconv.Itoa(w.version), Beat: w.told, Tasks: make([]task.HeldAction, len(b.Tasks))}
	named := make(map[handKey]struct{}, len(b.Tasks))
	for i, h := range b.Tasks {
		answer.Tasks[i] = task.HeldAction{ID: h.ID, Action: task.ActionStale}
		t, err := task.ParseToken(h.Token)
		if err != nil || t != t.Sealed(d.conf.Secret, h.ID) {
			continue
		}
		key := keyOf(h.ID, t)
		named[key] = struct{}{}
		it := d.items[h.ID]
		_, cancelled := w.cancelled[key]
		switch {
		case cancelled:
			answer.Tasks[i].Action = task.ActionCancel
		case it != nil && (it.place == out || it.place == settling) && keyOf(it.id, it.token) == key, it == nil && stands[key]:
			answer.Tasks[i].Action = task.ActionContinue
		}
	}
	for key := range w.cancelled { // it knows, or no longer has it
		if _, has := named[key]; !has {
			delete(w.cancelled, key)
		}
	}
	return answer
}
