package chaos

import (
	"maps"
	"slices"
	"testing"

	"github.com/rotahq/rota/task"
)

// stint is a hand-out of an honest handler: when it begins, how long it takes, and what stands of
// it; without a kind nothing does. All times are in seconds.
type stint struct {
	from, lasts, end int64
	kind             task.Kind
}

// ran is the story of a task with such hand-outs, of which the last one is final when it is done.
func ran(list ...stint) *story {
	s := &story{}
	for seq, at := range list {
		token := task.Token{SpanToken: 1, Seq: int32(seq)}.String()
		s.add(line{
			Deed: begun, At: at.from * second, Lasts: at.lasts * second, Token: token,
		})
		if at.kind != 0 {
			s.add(line{
				Deed: stepped, Seq: int32(seq), Fence: 1, Kind: at.kind, At: at.end * second,
				Final: at.kind == task.KindDone,
			})
		}
	}
	return s
}

func done(from, lasts int64) stint { return stint{from, lasts, from + lasts, task.KindDone} }

func retried(from, lasts int64) stint { return stint{from, lasts, from + lasts, task.KindRetry} }

func TestLiesAboutLimitsAreFound(t *testing.T) {
	c := func(i string, queue, key string) string { return rival("s0-"+i, queue, key) }
	for _, scene := range []struct {
		name    string
		stories map[string]*story
		want    []rule
		full    int
	}{
		{"two of a key and one of another", map[string]*story{
			c("1", queueKeyed, "c0"): ran(done(0, 4)), c("2", queueKeyed, "c0"): ran(done(1, 4)),
			c("3", queueKeyed, "c1"): ran(done(2, 4)),
		}, nil, 1},
		{"a third when the first is over", map[string]*story{
			c("1", queueKeyed, "c0"): ran(done(0, 4)), c("2", queueKeyed, "c0"): ran(done(1, 4)),
			c("3", queueKeyed, "c0"): ran(done(4, 4)),
		}, nil, 2},
		{"a third of a key", map[string]*story{
			c("1", queueKeyed, "c0"): ran(done(0, 4)), c("2", queueKeyed, "c0"): ran(done(1, 4)),
			c("3", queueKeyed, "c0"): ran(done(3, 4)),
		}, []rule{ruleKeyFull}, 1},
		{"a fourth of the queue", map[string]*story{
			c("1", queueKeyed, "c0"): ran(done(0, 4)), c("2", queueKeyed, "c0"): ran(done(1, 4)),
			c("3", queueKeyed, "c1"): ran(done(2, 4)), c("4", queueKeyed, "c1"): ran(done(3, 4)),
		}, []rule{ruleQueueFull}, 2},
		{"a third beside the retry of the first", map[string]*story{
			c("1", queueKeyed, "c0"): ran(retried(0, 1), done(3, 4)),
			c("2", queueKeyed, "c0"): ran(done(1, 9)),
			c("3", queueKeyed, "c0"): ran(done(2, 4)),
		}, []rule{ruleKeyFull}, 1},
		{"what was lost counts no more", map[string]*story{
			c("1", queueKeyed, "c0"): ran(stint{0, 9, 2, task.KindLost}, done(20, 1)),
			c("2", queueKeyed, "c0"): ran(done(1, 9)),
			c("3", queueKeyed, "c0"): ran(done(2, 4)),
		}, nil, 2},
		{"before it was lost it counts", map[string]*story{
			c("1", queueKeyed, "c0"): ran(stint{0, 9, 4, task.KindLost}, done(20, 1)),
			c("2", queueKeyed, "c0"): ran(done(1, 9)),
			c("3", queueKeyed, "c0"): ran(done(2, 4)),
		}, []rule{ruleKeyFull}, 1},
		{"who held on to what another was given says nothing", map[string]*story{
			c("1", queueKeyed, "c0"): ran(stint{from: 0, lasts: 9}),
			c("2", queueKeyed, "c0"): ran(done(1, 9)),
			c("3", queueKeyed, "c0"): ran(done(2, 4)),
		}, nil, 1},
		{"one after another", map[string]*story{
			c("1", queueOrdered, "c0"): ran(retried(0, 1), done(3, 1)),
			c("2", queueOrdered, "c0"): ran(done(4, 1)),
			c("3", queueOrdered, "c1"): ran(done(1, 9)),
		}, nil, 4},
		{"between two attempts", map[string]*story{
			c("1", queueOrdered, "c0"): ran(retried(0, 1), done(3, 1)),
			c("2", queueOrdered, "c0"): ran(done(2, 1)),
		}, []rule{ruleOrder}, 3},
		{"beside the one before", map[string]*story{
			c("1", queueOrdered, "c0"): ran(done(0, 2)),
			c("2", queueOrdered, "c0"): ran(done(1, 2)),
		}, []rule{ruleOrder, ruleKeyFull}, 1},
		{"another queue has no limits", map[string]*story{
			"s0-1": ran(done(0, 2)), "s0-2": ran(done(0, 2)), "s0-3": ran(done(0, 2)),
		}, nil, 0},
	} {
		t.Run(scene.name, func(t *testing.T) {
			v := &verdict{Wrong: map[rule]int{}}
			judgeLimits(v, scene.stories)
			want := slices.Sorted(slices.Values(scene.want))
			if got := slices.Sorted(maps.Keys(v.Wrong)); !slices.Equal(got, want) {
				t.Errorf("found %q, want %q: %q", got, want, v.Told)
			}
			if v.Full != scene.full {
				t.Errorf("keys were full %d times, want %d", v.Full, scene.full)
			}
		})
	}
}

// Whose rules are about each other are looked at together, however many parts there are.
func TestRivalsAreInOnePart(t *testing.T) {
	one, two := rival("s0-1", queueKeyed, "c0"), rival("s2-77", queueKeyed, "c1")
	if partOf(one) != partOf(two) || partOf("s0-1") == partOf("s2-77") {
		t.Error("rivals are parted, or others are not")
	}
	if queue, key, ok := rivalry(one); queue != queueKeyed || key != "c0" || !ok {
		t.Errorf("%q, %q, %v", queue, key, ok)
	}
	if _, _, ok := rivalry("s0-1"); ok {
		t.Error("a task without limits has rivals")
	}
}
