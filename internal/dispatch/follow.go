package dispatch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A limit holds from the answer on that its setter gets: by then every node asks the store before
// it hands out, and what runs without having been asked about is written down, so that it counts. A
// node that hears of a change reads the configurations, writes down what runs, and tells up to
// which change it follows; who sets limits waits until all members have told so (ADR 72).

const (
	// FollowPrefix begins the leases by which nodes tell up to which change they follow. Nobody
	// needs one that has ended.
	FollowPrefix = "queues/followed/"
	// followFor is how long such a lease stands; a node tells anew when half of it is over.
	followFor = time.Hour
	// followWithin is how long who sets limits waits for the nodes at most. The membership of a
	// node that is dead is ended before that, with the usual lease.
	followWithin = 15 * time.Second
	// followLook and followRest are the shortest and the longest time between two looks.
	followLook = 5 * time.Millisecond
	followRest = 200 * time.Millisecond
)

// follow goes by the configurations as they are in the store, and tells the other nodes so. What
// fails of that the next round does: who sets limits waits for it.
func (qc *queueCalls) follow(ctx context.Context) error {
	err := qc.goBy(ctx)
	if err != nil {
		qc.mu.Lock()
		defer qc.release()
		qc.mem.configRead = time.Time{}
	}
	return err
}

// goBy is follow without a second try.
func (qc *queueCalls) goBy(ctx context.Context) error {
	word, err := qc.reloadQueues(ctx)
	if err != nil {
		return err
	}
	if err := qc.writeUnasked(ctx); err != nil {
		return err
	}
	qc.mu.Lock()
	tell, due := qc.mem.configs.follows(word, time.Now())
	qc.release()
	if !due || qc.conf.Changed == nil {
		return nil
	}
	lease := store.Lease{
		Name:  FollowPrefix + qc.conf.Holder.Node,
		Value: followed{qc.conf.Holder.Token, tell}.text(),
	}
	if _, err := qc.store.AcquireAll(
		ctx, anyNode, []store.Lease{lease}, followFor, math.MaxInt64,
	); err != nil {
		return fmt.Errorf("tell other nodes which configurations this one goes by: %w", err)
	}
	qc.mu.Lock()
	defer qc.release()
	qc.mem.configs.toldOf(tell, time.Now())
	return nil
}

// follows notes up to which word this node follows. It answers the word of which the others are to
// be told, if they are.
func (cs *configs) follows(word int64, now time.Time) (tell int64, due bool) {
	cs.followed = max(cs.followed, word)
	return cs.followed, cs.followed > cs.told || now.Sub(cs.toldAt) >= followFor/2
}

// toldOf notes of which word the other nodes have been told.
func (cs *configs) toldOf(word int64, now time.Time) {
	cs.told = max(cs.told, word)
	cs.toldAt = now
}

// followed is what a member told: up to which word it follows. The zero followed is nobody's.
type followed struct {
	member int64 // the token of its membership
	word   int64
}

func (f followed) text() []byte { return fmt.Appendf(nil, "%d %d", f.member, f.word) }

// readFollowed is the inverse of text, and zero of what is none.
func readFollowed(text []byte) (f followed) {
	if _, err := fmt.Sscanf(string(text), "%d %d", &f.member, &f.word); err != nil {
		return followed{}
	}
	return f
}

// writeUnasked writes down what runs of queues with limits although the store was not asked: it was
// handed out before they had any.
func (qc *queueCalls) writeUnasked(ctx context.Context) error {
	qc.mu.Lock()
	req := store.SyncRequest{Holder: qc.conf.Holder}
	list := qc.mem.workers.unasked()
	for i := range list {
		req.Insert = append(req.Insert, list[i].was.running())
	}
	qc.release()
	if len(list) == 0 {
		return nil
	}
	sortRunning(req.Insert)
	got, err := qc.store.Sync(ctx, req)
	if err == nil && got.LeaseGone {
		err = errLeaseGone
	}
	if err != nil {
		return fmt.Errorf("write down %d tasks that run of queues with limits: %w", len(list), err)
	}
	qc.mu.Lock()
	defer qc.release()
	if left := qc.mem.wroteDown(list, got.Missing); left > 0 {
		return fmt.Errorf("write down %d tasks that run of queues with limits: %w", left,
			store.ErrBusy)
	}
	return nil
}

// unasked are the hand-outs of queues with limits that have no rows and of which the store is not
// being asked.
func (ws workers) unasked() (list []handed) {
	for _, w := range ws {
		for _, p := range slices.Clone(w.parcels) {
			if p.span.queue.gate.limited {
				w.lookInto(p)
			}
		}
		for _, it := range w.out {
			if it.queue.gate.limited && it.lacksRow() {
				list = append(list, it.handed())
			}
		}
	}
	return list
}

// lacksRow tells whether the hand-out is one that has no running row and may have one.
func (it *item) lacksRow() bool {
	return !it.row && !it.asked && it.token.SpanToken == it.span.Token &&
		it.token.Span == it.span.ID
}

// wroteDown notes that the rows of hand-outs stand, but for those that are missing, and says how
// many of these go on: they lack their rows still. Of one that ended meanwhile the row may have
// come after the outcome: it is swept.
func (m *memory) wroteDown(list []handed, missing []task.ID) (left int) {
	without := setOf(missing)
	for i := range list {
		switch h := &list[i]; {
		case !h.current():
			m.sweepLater(store.Watch{ID: h.id(), Seq: h.token.Seq})
		case without[h.id()]:
			left++
		default:
			h.was.row = true
		}
	}
	return left
}

// setOf is a list of tasks as a set.
func setOf(ids []task.ID) map[task.ID]bool {
	set := make(map[task.ID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// HearChanged takes in that the configuration of a queue with limits has changed at another node.
func (qc *queueCalls) HearChanged() {
	qc.mu.Lock()
	defer qc.release()
	if !qc.mem.closed {
		qc.mem.do.follow = true
	}
}

// followOn follows what was changed at other nodes. While one does so another one waits, and the
// rest has nothing to add.
func (qc *queueCalls) followOn() {
	select {
	case qc.toFollow <- struct{}{}:
	default:
		return
	}
	qc.following <- struct{}{}
	defer func() { <-qc.following }()
	<-qc.toFollow
	if err := qc.hearAndFollow(qc.ctx); err != nil { // the next round does it
		qc.note(err)
	}
}

// hearAndFollow reads up to which change there is something to follow, and follows it.
func (qc *queueCalls) hearAndFollow(ctx context.Context) error {
	beat, err := qc.store.Beat(ctx, nil, remembered, queuesWord)
	if err != nil {
		return fmt.Errorf("read whether configurations have changed: %w", err)
	}
	qc.mu.Lock()
	qc.mem.configs.hear(beat.Leases)
	qc.release()
	return qc.follow(ctx)
}

// everywhere waits until every node follows a change, whose word may be 0 = not told yet. It
// answers the nodes of which that is not known when its time is up, or ctx ends: they do so later.
func (qc *queueCalls) everywhere(ctx context.Context, word int64) (unheard []string) {
	ctx, cancel := context.WithTimeout(ctx, followWithin)
	defer cancel()
	unheard = []string{qc.conf.Holder.Node}
	for rest := followLook; ; rest = min(2*rest, followRest) {
		if word == 0 {
			word = qc.spread(ctx)
		}
		if word > 0 {
			if rest == followLook && qc.conf.Changed != nil {
				qc.conf.Changed()
			}
			unheard = qc.stillUnheard(ctx, word, unheard)
		}
		if len(unheard) == 0 || !qc.pauses(ctx, rest) {
			return unheard
		}
	}
}

// pauses waits for a moment. It says no when ctx ended, or this node closed.
func (qc *queueCalls) pauses(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-qc.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// stillUnheard are the nodes that do not follow a change yet, by name. before is what is known of
// them when that can't be read just now. This node follows what others change meanwhile: they may
// wait for it as it does for them.
func (qc *queueCalls) stillUnheard(
	ctx context.Context, word int64, before []string,
) []string {
	var beat store.Beat
	if qc.conf.Changed != nil {
		var err error
		if beat, err = qc.store.Beat(
			ctx, nil, remembered, queuesWord, store.MembershipPrefix, FollowPrefix,
		); err != nil {
			qc.note(err)
			return before
		}
	}
	qc.mu.Lock()
	qc.mem.configs.hear(beat.Leases)
	due := qc.mem.configs.followed < qc.mem.configWord
	qc.release()
	if due {
		if err := qc.follow(ctx); err != nil {
			qc.note(err)
			return before
		}
	}
	qc.mu.Lock()
	defer qc.release()
	if qc.mem.configs.followed < word {
		return before
	}
	return unheardMembers(beat, word, qc.conf.Holder.Node)
}

// unheardMembers are the members but one that have not told that they follow a change, by name.
// What a former start of a node told is not that node's.
func unheardMembers(beat store.Beat, word int64, but string) (list []string) {
	told := map[string]followed{}
	for i := range beat.Leases {
		l := &beat.Leases[i]
		if node, ok := strings.CutPrefix(l.Name, FollowPrefix); ok {
			told[node] = readFollowed(l.Value)
		}
	}
	for i := range beat.Leases {
		l := &beat.Leases[i]
		node, ok := strings.CutPrefix(l.Name, store.MembershipPrefix)
		if !ok || node == but || l.Until == 0 {
			continue // one that has expired and was not ended may be renewed yet
		}
		if is := told[node]; is.member != l.Token || is.word < word {
			list = append(list, node)
		}
	}
	slices.Sort(list)
	return list
}
