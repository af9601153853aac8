package chaos

import (
	"maps"
	"slices"
	"testing"

	"github.com/rotahq/rota/task"
)

// familyAt is an honest family: a task that began to wait at second 1, its children, which were
// over at second 2, and its next stage, which began at second 3.
func familyAt(mark string) map[string]*story {
	children, lines := brood(mark, "w0")
	all := task.Children{Total: int64(len(children))}
	stories := map[string]*story{}
	for i, asked := range lines {
		id := task.ID{Batch: 7, N: int32(i)}
		begins := line{Deed: begun, Mark: asked.Mark, ID: id, At: second, Lasts: second,
			Token: task.Token{Span: 7, SpanToken: 1}.String()}
		end := line{Deed: stepped, Mark: asked.Mark, ID: id, Kind: task.KindDone, Final: true,
			Fence: 1, At: 2 * second}
		all.Done++
		if asked.Want == task.Dead {
			end.Kind = task.KindFail
			all.Done--
			all.Dead++
		}
		stories[asked.Mark] = &story{
			asked: []line{asked}, begun: []line{begins}, steps: []line{end},
			stands: []line{{Deed: stands, Mark: asked.Mark, ID: id}},
		}
	}
	s := waiting(mark, families)
	s.begun = []line{{Stage: stageGather, At: 3 * second, Told: gathered(&all)}}
	stories[mark] = s
	return stories
}

// waiting is a task that began to wait at second 1.
func waiting(mark string, what work) *story {
	return &story{
		asked: []line{{Deed: asked, Mark: mark, Work: what}}, stands: []line{{Mark: mark}},
		steps: []line{{Kind: task.KindNext, At: second}},
	}
}

// signalled is an honest task that was sent a signal at second 2, and woken at second 3.
func signalled(mark string) map[string]*story {
	s := waiting(mark, waits)
	s.sent, s.heard = []line{{At: 2*second - 1}}, []line{{At: 2 * second}}
	s.begun = []line{{Stage: stageTold, At: 3 * second, Told: mark}}
	return map[string]*story{mark: s}
}

// Each lie about children and signals is found, and taken for nothing else.
func TestLiesAboutFamiliesAndSignalsAreFound(t *testing.T) {
	const mark = "s0-1"
	due := second + signalWithin.Microseconds()
	late := func(s *story) {
		s.begun = []line{{Stage: stageLate, At: due, Told: timedOut}}
	}
	for _, c := range []struct {
		name string
		of   map[string]*story
		lie  func(s *story, all map[string]*story)
		want []rule
	}{
		{"no lie", familyAt(mark), func(*story, map[string]*story) {}, nil},
		{"a child is missing", familyAt(mark), func(s *story, all map[string]*story) {
			delete(all, childOf(mark, 1))
			s.begun = nil
		}, []rule{ruleBrood}},
		{"a child was asked for and does not stand", familyAt(mark),
			func(s *story, all map[string]*story) {
				all[childOf(mark, 0)].stands = nil
				s.begun = nil
			}, []rule{ruleBrood}},
		{"the outcome is missing", familyAt(mark), func(s *story, _ map[string]*story) {
			s.steps, s.begun = nil, nil
		}, []rule{ruleOrphan}},
		{"no lie: neither outcome nor children", familyAt(mark),
			func(s *story, all map[string]*story) {
				s.steps, s.begun = nil, nil
				maps.DeleteFunc(all, func(of string, _ *story) bool { return of != mark })
			}, nil},
		{"it went on too soon", familyAt(mark), func(s *story, _ map[string]*story) {
			s.begun[0].At = 2*second - 1
		}, []rule{ruleWentOn}},
		{"it was told of fewer", familyAt(mark), func(s *story, _ map[string]*story) {
			s.begun[0].Told = gathered(&task.Children{Total: 1, Done: 1})
		}, []rule{ruleTold}},
		{"no lie: a signal came", signalled(mark), func(*story, map[string]*story) {}, nil},
		{"another one's signal", signalled(mark), func(s *story, _ map[string]*story) {
			s.begun[0].Told = "s0-2"
		}, []rule{ruleTold}},
		{"nobody sent it", signalled(mark), func(s *story, _ map[string]*story) {
			s.sent, s.heard = nil, nil
		}, []rule{ruleUnsent}},
		{"acknowledged in time, and not heard", signalled(mark),
			func(s *story, _ map[string]*story) { late(s) }, []rule{ruleUnheard}},
		{"no lie: acknowledged too late", signalled(mark), func(s *story, _ map[string]*story) {
			late(s)
			s.heard[0].At = due
		}, nil},
		{"no lie: sent, and never acknowledged", signalled(mark),
			func(s *story, _ map[string]*story) {
				late(s)
				s.heard = nil
			}, nil},
		{"over before its time", signalled(mark), func(s *story, _ map[string]*story) {
			late(s)
			s.heard = nil
			s.begun[0].At = due - 1
		}, []rule{ruleTooEarly}},
		{"late, and told of a signal", signalled(mark), func(s *story, _ map[string]*story) {
			late(s)
			s.heard, s.begun[0].Told = nil, mark
		}, []rule{ruleTold}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.lie(c.of[mark], c.of)
			v := &verdict{Wrong: map[rule]int{}}
			judgeFamilies(v, c.of)
			if got := slices.Sorted(maps.Keys(v.Wrong)); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q: %q", got, c.want, v.Told)
			}
		})
	}
}

// Children are looked at together with their parent, however many parts there are.
func TestFamiliesAreInOnePart(t *testing.T) {
	if partOf(childOf("s0-1", 3)) != partOf("s0-1") {
		t.Error("a child is parted from its parent")
	}
}
