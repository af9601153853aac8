package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// contextHead begins every context.
const contextHead = `{"task":"`

// contextOf is the text of a wish's context in one of its versions: with everything that a careless
// round trip changes, and now and then too large for its row.
func contextOf(w *wish, version int) string {
	pad := ""
	if strings.HasSuffix(w.name, "0") {
		pad = strings.Repeat("x", store.InlineLimit)
	}
	return contextHead + w.name +
		fmt.Sprintf(`", "v":%d,"n":9007199254740993,"e":1e400,"u":"\u2028\/%s","n":-0.0}`, version,
			pad)
}

// stageName is the name of a stage: it says which version of the context is to come with it.
func stageName(stage, version int) string { return fmt.Sprintf("s%d.v%d", stage, version) }

// textAt is the context with which a task must come at a stage.
func textAt(w *wish, stage string) string {
	if w.notice {
		return string(w.sub.Context)
	}
	_, version := parseStage(stage)
	return contextOf(w, version)
}

func parseStage(name string) (stage, version int) {
	if _, err := fmt.Sscanf(name, "s%d.v%d", &stage, &version); err != nil {
		panic(fmt.Sprintf("stage %q: %v", name, err))
	}
	return stage, version
}

// script is what a handler does with one hand-out.
type script struct {
	takes   time.Duration
	outcome task.Outcome
	deaf    bool // goes on when it is told to stop
	kills   bool // kills its worker, and the node that it has the task from
	commits bool // the outcome goes into a transaction of the handler's
	forgets bool // which is not committed
	// children that are added before the outcome is reported
	adds []task.Submission
}

// scriptOf is what the seed wants of a hand-out. It hangs on nothing but the hand-out, so that it
// is the same whenever it begins.
func (w *world) scriptOf(t task.Handout) script {
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, t.ID, t.Token)
	luck := rand.New(rand.NewPCG(h.Sum64(), w.seed))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(luck.Int64N(int64(high-low)))
	}
	if t.Stage == "" { // a final notice
		s := script{
			takes: between(10*time.Millisecond, 400*time.Millisecond), outcome: task.Finish(nil),
		}
		if luck.IntN(4) == 0 {
			s.outcome = task.Retry(fmt.Errorf("nobody listens"))
		}
		return s
	}
	stage, version := parseStage(t.Stage)
	wish := w.ledger.wishes[nameIn(t.Context)]
	if wish == nil {
		return script{takes: time.Millisecond, outcome: task.Fail(nil)} // the ledger has seen it
	}
	if wish.poison {
		return script{
			takes: between(50*time.Millisecond, 900*time.Millisecond), kills: true,
			outcome: task.Release(),
		}
	}
	s := script{takes: between(10*time.Millisecond, 400*time.Millisecond), deaf: luck.IntN(3) == 0}
	switch p := luck.IntN(10); {
	case p == 0:
		s.takes = between(4*time.Second, w.longest)
	case p < 4:
		s.takes = between(400*time.Millisecond, 3*time.Second)
	}
	switch p := luck.IntN(100); {
	case p < 8:
		s.outcome = task.Retry(fmt.Errorf("no luck"))
	case p < 12:
		s.outcome = task.Snooze(between(0, 10*time.Second))
	case p < 14:
		s.outcome = task.Snooze(between(time.Minute, 70*time.Second))
	case p < 17:
		s.outcome = task.Release()
	case p < 20:
		s.outcome = task.Fail(fmt.Errorf("never"))
	case stage < 3 && p < 60:
		if luck.IntN(2) == 0 {
			s.outcome = task.Outcome{Kind: task.KindNext, Stage: stageName(stage+1, version)}
		} else {
			s.outcome = task.Outcome{
				Kind: task.KindNext, Stage: stageName(stage+1, version+1),
				Context: []byte(contextOf(wish, version+1)),
			}
		}
	default:
		s.outcome = task.Finish(stage)
	}
	if s.outcome.Kind == task.KindNext && luck.IntN(8) == 0 {
		s.outcome.Delay = between(0, 10*time.Second)
		if luck.IntN(3) == 0 {
			s.outcome.Delay += time.Minute
		}
	}
	if s.outcome.Kind == task.KindDone || s.outcome.Kind == task.KindNext {
		s.commits, s.forgets = luck.IntN(3) == 0, luck.IntN(12) == 0
	}
	w.holdsKey(&s, h.Sum64())
	if w.waits() {
		w.wait(t, &s)
	}
	if w.families() {
		w.spawn(t, wish, &s)
	}
	return s
}
