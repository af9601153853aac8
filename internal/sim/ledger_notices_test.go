package sim

import (
	"encoding/json"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// dying learns which final notices a settlement is about to store, and answers their ids. Whether
// they are stored hangs on whether the reports are recorded that they come with.
func (l *ledger) dying(s store.Settlement) (ids []task.ID) {
	for _, r := range s.Reports {
		b, of := r.Notice, l.tales[r.ID]
		if b == nil || of == nil {
			continue
		}
		id := task.ID{Batch: b.ID, N: b.Tasks[0].N}
		ids = append(ids, id)
		if l.tales[id] != nil { // the settlement is repeated
			continue
		}
		if off := time.Duration(b.Created-l.world.storeNow()) * time.Microsecond; l.calm != nil &&
			off.Abs() > 10*time.Second {
			l.world.breach("notice %v is stamped %v from the store's time", id, off)
		}
		var n task.FinalNotice
		if err := json.Unmarshal(b.Tasks[0].Context, &n); err != nil || len(b.Tasks) != 1 ||
			b.Queue != finals[of.wish.sub.Queue] ||
			n.Task != of.id || n.Queue != of.wish.sub.Queue || n.State != r.Step.Kind.Leaves() ||
			n.Outcome != r.Step.Kind {
			l.world.breach("I7: %v of %v leaves the notice %+v in %q: %v", r.Step.Kind, of.id, n,
				b.Queue, err)
		}
		w := &wish{
			name: "notice of " + of.wish.name, notice: true, sub: task.Submission{
				Queue: b.Queue, Context: []byte(b.Tasks[0].Context),
			},
		}
		of.dies = append(of.dies, l.begin(id, w))
	}
	return ids
}

// notices holds the final notices of a task against its deaths: one stands for each in a queue that
// has notices, and none otherwise. A notice itself is tried until it is done.
func (l *ledger) notices(t *tale) {
	if t.wish.notice && t.final == task.Dead {
		l.world.breach("I7: the %s died, as %v", t.wish.name, t.id)
	}
	deaths := 0
	if finals[t.wish.sub.Queue] != "" {
		for i := range t.steps { // what is replayed was over, and may have been dead
			if t.steps[i].Kind == task.KindReplayed && notes(t.steps[i-1].Kind.Leaves()) {
				deaths++
			}
		}
		if notes(t.final) {
			deaths++
		}
	}
	stored := 0
	for _, n := range t.dies {
		if n.stored {
			stored++
		}
	}
	if stored != deaths {
		l.world.breach("I7: %v died %d times in %q, and left %d notices; its steps are %+v", t.id,
			deaths, t.wish.sub.Queue, stored, t.steps)
	}
}

// notes tells whether a final state leaves a notice.
func notes(s task.State) bool { return s == task.Dead || s == task.Expired }
