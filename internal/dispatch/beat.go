package dispatch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// workerCalls keep what memory knows of workers up to date: by their beats, by what other nodes
// heard of them, and by what operators say of them.
type workerCalls struct {
	*core
	settlements *settlements // record what a leaving worker gives back
}

// Beat is a worker's sign of life: it says what the worker holds and is answered what to do with
// it. With b.Wait it answers early when there is news after b.Version.
func (wc *workerCalls) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	return spelled(ctx, b, wc.beat)
}

// beat is Beat in names of the one form.
func (wc *workerCalls) beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	if err := checkBeat(b); err != nil {
		return task.BeatAnswer{}, err
	}
	if !strings.HasPrefix(b.Version, wc.mem.origin+".") {
		// another node's: the worker may have been there since it was here last
		b.Version = ""
	}
	wc.mu.Lock()
	if wc.mem.closed {
		wc.release()
		return task.BeatAnswer{}, ErrClosed
	}
	w, late := wc.mem.hear(b, time.Now())
	if !late && wc.conf.Jobs != nil {
		wc.conf.Jobs.Hear(&b)
	}
	wc.release()
	known, err := wc.askStore(ctx, b)
	if err != nil {
		return task.BeatAnswer{}, err
	}
	wc.mu.Lock()
	w.noteRemote(known)
	wc.release()
	if b.Leaving {
		if err := wc.leave(ctx, b, known); err != nil {
			return task.BeatAnswer{}, err
		}
	}
	if b.Wait > 0 {
		wc.awaitNews(ctx, w, b)
		if known, err = wc.askStore(ctx, b); err != nil {
			return task.BeatAnswer{}, err
		}
	}
	wc.mu.Lock()
	often := time.Duration(0)
	if wc.conf.Jobs != nil && len(b.Groups) > 0 {
		_, often = wc.conf.Jobs.Patience(b.Worker)
	}
	answer := w.answer(b, known, often)
	wc.release()
	if wc.conf.Jobs != nil {
		answer.Jobs, err = wc.conf.Jobs.Orders(ctx, &b)
	}
	return answer, err
}

// versionName is what the worker's next beat is to name, if it beats here again.
func (w *worker) versionName() string { return w.memory.origin + "." + strconv.Itoa(w.version) }

func checkBeat(b task.Beat) error {
	var e task.InvalidError
	if !limits.ValidName(b.Worker) {
		e.Add("path.worker", "%.40q %s", b.Worker, limits.NameRule)
	}
	if !limits.ValidText(b.Incarnation, limits.MaxName) || b.Incarnation == "" {
		e.Add("body.incarnation", "must be 1 to %d bytes of printable UTF-8, new with every start",
			limits.MaxName)
	}
	if _, err := task.ParseUnits(b.Capacity); err != nil {
		e.Add("body.capacity", "%v", err)
	}
	if !(b.Load.CPU >= 0 && b.Load.CPU <= 1) || !(b.Load.Memory >= 0 && b.Load.Memory <= 1) {
		e.Add("body.load", "cpu and memory are shares, 0 to 1")
	}
	limits.CheckLabels(&e, "body.labels", b.Labels)
	if !limits.ValidText(b.Zone, limits.MaxKey) {
		e.Add("body.zone", "must be at most %d bytes of printable UTF-8", limits.MaxKey)
	}
	if !limits.ValidText(b.Build, limits.MaxKey) {
		e.Add("body.version", "must be at most %d bytes of printable UTF-8", limits.MaxKey)
	}
	groups := map[string]bool{}
	for i, group := range b.Groups {
		switch location := fmt.Sprintf("body.groups[%d]", i); {
		case !limits.ValidName(group):
			e.Add(location, "%.40q %s", group, limits.NameRule)
		case groups[group]:
			e.Add(location, "%q is there already", group)
		}
		groups[group] = true
	}
	for i, queue := range b.Queues {
		if !limits.ValidName(queue) {
			e.Add(fmt.Sprintf("body.queues[%d]", i), "%.40q %s", queue, limits.NameRule)
		}
	}
	if len(b.Tasks) > limits.MaxReports {
		e.Add("body.tasks", "at most %d", limits.MaxReports)
	}
	if b.Wait < 0 || b.Wait > limits.MaxWait {
		e.Add("query.wait", "must be 0s to %v", limits.MaxWait)
	}
	return e.Err()
}

// hear takes in what a beat says, unless it is a late one: its worker's start has said that it
// leaves.
func (m *memory) hear(b task.Beat, now time.Time) (w *worker, late bool) {
	w = m.worker(b.Worker, now)
	if w.over(b.Incarnation) {
		return w, true
	}
	w.touch(now)
	named := make(map[handKey]struct{}, len(b.Tasks))
	for _, h := range b.Tasks {
		key, ok := m.heldKey(h)
		if !ok {
			continue
		}
		named[key] = struct{}{}
		if it := m.item(h.ID); it != nil && it.place == out && it.worker == w &&
			keyOf(it.id, it.token) == key {
			it.progress, it.note = h.Progress, h.Note
		}
	}
	restarted := w.incarnation != "" && w.incarnation != b.Incarnation
	w.incarnation, w.beats, w.measured, w.capacity = b.Incarnation, true, true, b.Capacity
	w.labels, w.zone, w.build = b.Labels, b.Zone, b.Build
	w.shares, w.jobs = b.Load, len(b.Jobs)
	w.serves = m.conf.Serving && len(b.Groups) > 0 && !b.Leaving
	for _, queue := range b.Queues {
		w.asks(queue, now)
	}
	w.compare(named, restarted, b.Leaving, now)
	if b.Leaving {
		w.retire()
		w.gone = b.Incarnation
		return w, false
	}
	w.reorder()
	w.match(now)
	return w, false
}

// key is that of a hand-out that a beat names. It says no to a token that rota did not give out for
// the task.
func (m *memory) key(h task.Held) (handKey, bool) {
	t, err := task.ParseToken(h.Token)
	if err != nil || m.seals.Check(t, h.ID) == seal.Forged {
		return handKey{}, false
	}
	return keyOf(h.ID, t), true
}

// heldKey is key without a look at the seal where memory knows the very token.
func (m *memory) heldKey(h task.Held) (handKey, bool) {
	if it := m.item(h.ID); it != nil {
		if t, err := task.ParseToken(h.Token); err == nil && t == it.token {
			return keyOf(h.ID, t), true
		}
	}
	return m.key(h)
}

// compare holds what a worker says it has against what it was given. A hand-out missing from two
// beats that began after its answer was written is lost; so is, at once, what an earlier
// incarnation had; and a worker that leaves gives everything back.
func (w *worker) compare(
	named map[handKey]struct{}, restarted, leaving bool, now time.Time,
) {
	for _, it := range w.sorted() {
		_, has := named[keyOf(it.id, it.token)]
		switch {
		case leaving:
			it.end(task.KindRelease, "its worker left", now)
		case has:
			it.missed, it.written, it.incarnation = 0, true, w.incarnation
		case restarted && it.incarnation != w.incarnation:
			it.end(task.KindLost, "its worker started again", now)
		case it.written:
			if it.missed++; it.missed >= 2 {
				it.end(task.KindLost, "missing from two beats of its worker", now)
			}
		}
	}
}

// askStore finds out about the hand-outs of a beat that memory does not know: another node's, an
// earlier process', or over. It answers what their worker is to do with them.
func (wc *workerCalls) askStore(
	ctx context.Context, b task.Beat,
) (orders map[handKey]task.Action, err error) {
	wc.mu.Lock()
	unknown := wc.mem.unknown(b)
	wc.release()
	if len(unknown) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(unknown))
	for i := range unknown {
		ids[i] = unknown[i].id
	}
	stood, err := wc.store.Stand(ctx, ids)
	if err != nil {
		wc.note(err)
		return nil, fmt.Errorf("read where tasks stand: %w", err)
	}
	orders = make(map[handKey]task.Action, len(stood))
	for i, key := range unknown {
		switch s := &stood[i]; {
		case key.stands(s):
			orders[key] = task.ActionContinue
		case s.Kind == task.KindCancelled && s.Seq == key.seq+1: // that is how this one ended
			orders[key] = task.ActionCancel
		default:
			orders[key] = task.ActionStale
		}
	}
	return orders, nil
}

// unknown are the hand-outs of a beat that memory does not know.
func (m *memory) unknown(b task.Beat) (list []handKey) {
	for _, h := range b.Tasks {
		if m.has(h.ID) {
			continue
		}
		if key, ok := m.key(h); ok {
			list = append(list, key)
		}
	}
	return list
}

// stands tells whether a report of the hand-out would be recorded now: the check of the settle
// transaction, as a forecast.
func (k *handKey) stands(s *store.Stood) bool {
	if !s.Found || s.Final || s.Seq != k.seq {
		return false
	}
	if s.Running != nil {
		return s.Running.Token == k.spanToken
	}
	return s.Owner.ID == k.span && s.Owner.Token == k.spanToken
}

func (wc *workerCalls) awaitNews(ctx context.Context, w *worker, b task.Beat) {
	wc.mu.Lock()
	news, same := w.news, w.versionName() == b.Version
	wc.release()
	if !same {
		return
	}
	timer := time.NewTimer(b.Wait)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	case <-wc.stop:
	}
}

// answer says what to do with each hand-out that a beat named. Jobs want the next beat after often
// at the latest; 0 = they do not care.
func (w *worker) answer(
	b task.Beat, known map[handKey]task.Action, often time.Duration,
) task.BeatAnswer {
	w.told = w.memory.conf.BeatEvery
	if w.patience > 0 {
		w.told = min(w.told, w.patience/3)
	}
	if often > 0 {
		w.told = min(w.told, often)
	}
	answer := task.BeatAnswer{
		Version: w.versionName(), Beat: w.told, Tasks: make([]task.HeldAction, len(b.Tasks)),
	}
	for i, h := range b.Tasks {
		answer.Tasks[i] = task.HeldAction{ID: h.ID, Action: task.ActionStale}
		key, ok := w.memory.heldKey(h)
		if !ok {
			continue
		}
		order, asked := known[key]
		switch it := w.memory.item(h.ID); {
		case it != nil && (it.place == out || it.place == settling) &&
			keyOf(it.id, it.token) == key:
			answer.Tasks[i].Action = task.ActionContinue
		case it == nil && asked:
			answer.Tasks[i].Action = order
		case it == nil: // it ended this very moment: how, the next beat is told
			answer.Tasks[i].Action = task.ActionContinue
		}
	}
	return answer
}
