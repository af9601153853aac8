package chaos

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// rule is something that must not be.
type rule string

const (
	ruleTaskLost    rule = "an acknowledged task is not there"
	ruleTaskTwice   rule = "a submission became two tasks"
	ruleTaskForeign rule = "a task is there that nobody asked for"
	ruleUnfinished  rule = "a task is not final"
	ruleOtherEnd    rule = "a task ended otherwise than its handler says"
	ruleHistory     rule = "the steps of a task have a gap, or go on after the end"
	ruleReportLost  rule = "an accepted report does not stand"
	ruleTwoOutcomes rule = "two outcomes of a hand-out were accepted"
	ruleTwiceNew    rule = "a report was recorded twice"
	ruleStepForeign rule = "a step stands that nobody did"
	ruleHandTwice   rule = "a hand-out began twice"
	ruleHandForeign rule = "a task was handed out that is not there"
	ruleContext     rule = "a context has changed"
	ruleRunAgain    rule = "a hand-out did not outlive its node"
	ruleDisturbed   rule = "a hand-out did not count although nobody died but the database"
)

// conditions are what a run knows of itself.
type conditions struct {
	// Known is how old a hand-out must be to outlive its node: then it is written down.
	Known time.Duration
	// OnlyNodes: nothing went wrong but that nodes died, so every hand-out that was old enough then
	// must have been accepted.
	OnlyNodes bool
	// OnlyStore: nothing went wrong but that the database was away, so every hand-out that began
	// must have been accepted.
	OnlyStore bool
	// Part is how many bytes of ledgers to keep in memory at a time; 0 = 64 MiB.
	Part int64
}

// verdict is what check found.
type verdict struct {
	Tasks        int
	Acknowledged int
	Unasked      int // tasks whose submitter never learned that they are there
	Dead         int // as they should be
	Begun        int // hand-outs
	Accepted     int // reports
	Repeated     int // those that were accepted once more, as they should be
	Lost         int // hand-outs whose worker fell silent, or that never arrived
	// hand-outs that were old enough when a node died, and those of them that were accepted
	Old, Kept int
	// hand-outs of queues with limits, and those with which a key was full
	Limited, Full int
	// hand-outs of stages behind a wait: for children, for a signal, for one that did not come
	Gathered, Woken, Late int

	Wrong map[rule]int
	Told  []string // the first few things that are wrong, in words
}

// told is how many violations of one rule are put in words.
const told = 5

func (v *verdict) wrong(r rule, format string, args ...any) {
	if v.Wrong[r]++; v.Wrong[r] <= told {
		v.Told = append(v.Told, string(r)+": "+fmt.Sprintf(format, args...))
	}
}

func (v *verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"%d tasks (%d acknowledged, %d unknown to their submitters, %d dead as they should be), ",
		v.Tasks, v.Acknowledged, v.Unasked, v.Dead)
	fmt.Fprintf(&b, "%d hand-outs begun, %d reports accepted (%d once more), %d hand-outs lost; ",
		v.Begun, v.Accepted, v.Repeated, v.Lost)
	fmt.Fprintf(&b, "of %d old ones whose node may have died %d were accepted; ", v.Old, v.Kept)
	fmt.Fprintf(&b, "of %d with limits %d filled their key; ", v.Limited, v.Full)
	fmt.Fprintf(&b, "after a wait: %d for children, %d for a signal, %d for none", v.Gathered,
		v.Woken, v.Late)
	for _, r := range slices.Sorted(maps.Keys(v.Wrong)) {
		fmt.Fprintf(&b, "\nWRONG, %d times: %s", v.Wrong[r], r)
	}
	return b.String()
}

// check compares all ledgers of a folder, one part of the tasks after the other. Every rule is
// about one task, but for those of limits, which are about all tasks of a queue, and those about
// children.
func check(folder string, c conditions) (*verdict, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var size int64
	for _, name := range files {
		stat, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		size += stat.Size()
	}
	parts := uint32(1 + size/cmp.Or(c.Part, 64<<20))
	v := &verdict{Wrong: map[rule]int{}}
	for part := range parts {
		var deaths []int64
		stories := map[string]*story{}
		for _, name := range files {
			for l, err := range read(name) {
				switch {
				case err != nil:
					return nil, err
				case l.Deed == died:
					deaths = append(deaths, l.At)
				case partOf(l.Mark)%parts == part:
					if stories[l.Mark] == nil {
						stories[l.Mark] = &story{}
					}
					stories[l.Mark].add(l)
				}
			}
		}
		for _, mark := range slices.Sorted(maps.Keys(stories)) {
			stories[mark].judge(v, mark, deaths, c)
		}
		judgeLimits(v, stories)
		judgeFamilies(v, stories)
	}
	return v, nil
}

func partOf(mark string) uint32 {
	if queue, _, ok := rivalry(mark); ok {
		mark = queue
	}
	h := fnv.New32a()
	h.Write([]byte(familyOf(mark)))
	return h.Sum32()
}

// story is all that is known of one task.
type story struct{ asked, acknowledged, begun, answered, sent, heard, stands, steps []line }

func (s *story) add(l line) {
	list := map[deed]*[]line{
		asked: &s.asked, acknowledged: &s.acknowledged, begun: &s.begun, answered: &s.answered,
		sent: &s.sent, heard: &s.heard, stands: &s.stands, stepped: &s.steps,
	}[l.Deed]
	*list = append(*list, l)
}

// hand is what a report, a begin and a step must agree in: a hand-out.
type hand struct {
	id    task.ID
	seq   int32
	fence int64
}

// handOf is the hand-out that a line is about.
func handOf(l line) hand {
	if l.Deed == stepped {
		return hand{l.ID, l.Seq, l.Fence}
	}
	// a token that is none agrees with no step, and that is said
	token, _ := task.ParseToken(l.Token)
	return hand{l.ID, token.Seq, token.SpanToken}
}

func (s *story) judge(v *verdict, mark string, deaths []int64, c conditions) {
	wrong := func(r rule, format string, args ...any) { v.wrong(r, mark+": "+format, args...) }
	s.judgeTask(v, wrong)
	s.judgeEnd(v, wrong)
	s.judgeReports(v, wrong)
	s.judgeHands(v, wrong)
	s.judgeDeaths(v, wrong, deaths, c)
}

type complaint = func(r rule, format string, args ...any)

// judgeTask holds what was asked for and what was acknowledged against what is there.
func (s *story) judgeTask(v *verdict, wrong complaint) {
	ids := map[task.ID]bool{}
	for _, l := range s.stands {
		ids[l.ID] = true
	}
	v.Tasks += len(ids)
	v.Acknowledged += min(len(s.acknowledged), 1)
	if len(ids) > 0 && len(s.acknowledged) == 0 {
		v.Unasked++
	}
	if len(ids) > 0 && len(s.asked) == 0 {
		wrong(ruleTaskForeign, "%+v", s.stands)
	}
	for _, l := range s.acknowledged {
		if !ids[l.ID] {
			wrong(ruleTaskLost, "%+v, but there is %+v", l, s.stands)
		}
	}
	if len(ids) > 1 {
		wrong(ruleTaskTwice, "%+v", s.stands)
	}
	for _, l := range s.begun {
		if !ids[l.ID] {
			wrong(ruleHandForeign, "%+v", l)
		}
		if len(s.asked) > 0 && l.Sum != s.asked[0].Sum {
			wrong(ruleContext, "%+v, asked for as %+v", l, s.asked[0])
		}
	}
}

// judgeEnd looks at the steps of each task: without a gap, and an end, the right one, at their end.
func (s *story) judgeEnd(v *verdict, wrong complaint) {
	for _, t := range s.stands {
		var steps []line
		for _, l := range s.steps {
			if l.ID == t.ID {
				steps = append(steps, l)
			}
		}
		slices.SortFunc(steps, func(a, b line) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, l := range steps {
			if int(l.Seq) != i || l.Final && i < len(steps)-1 {
				wrong(ruleHistory, "%+v", steps)
			}
			if l.Kind == task.KindLost || l.Kind == task.KindTimeout {
				v.Lost++
			}
		}
		if len(steps) == 0 || !steps[len(steps)-1].Final {
			wrong(ruleUnfinished, "%+v after %+v", t, steps)
			continue
		}
		end := steps[len(steps)-1].Kind.Leaves()
		if end == task.Dead {
			v.Dead++
		}
		if len(s.asked) > 0 && end != s.asked[0].Want {
			wrong(ruleOtherEnd, "it is %s after %+v", end, steps)
		}
	}
}

// judgeReports holds the reports that were accepted against one another and against the steps.
func (s *story) judgeReports(v *verdict, wrong complaint) {
	type seat struct {
		id  task.ID
		seq int32
	}
	first := map[seat]line{}
	recorded := map[seat]bool{}
	for _, l := range s.answered {
		h := handOf(l)
		at := seat{h.id, h.seq}
		f, known := first[at]
		same := known && f.Token == l.Token && f.Kind == l.Kind && f.Text == l.Text
		switch {
		case same && recorded[at] && l.Status == task.Recorded:
			wrong(ruleTwiceNew, "%+v", l)
		case same:
			v.Repeated++
		case known:
			wrong(ruleTwoOutcomes, "%+v and %+v", f, l)
		default:
			first[at] = l
			v.Accepted++
		}
		if !slices.ContainsFunc(s.steps, func(step line) bool {
			return handOf(step) == h && step.Kind == l.Kind && step.Text == l.Text
		}) {
			wrong(ruleReportLost, "%+v, but there stands %+v", l, s.steps)
		}
		if same || !known {
			recorded[at] = recorded[at] || l.Status == task.Recorded
		}
	}
}

// judgeHands looks at what handlers began: each hand-out once, and no outcome without a handler,
// but for those that were given back unrun.
func (s *story) judgeHands(v *verdict, wrong complaint) {
	hands := map[hand]bool{}
	for _, l := range s.begun {
		h := handOf(l)
		if hands[h] {
			wrong(ruleHandTwice, "%+v", l)
		}
		hands[h] = true
	}
	v.Begun += len(hands)
	for _, l := range s.steps {
		if l.Kind.Reportable() && l.Kind != task.KindRelease && !hands[handOf(l)] {
			wrong(ruleStepForeign, "%+v, begun were %+v", l, s.begun)
		}
	}
}

// judgeDeaths looks at hand-outs while others died.
func (s *story) judgeDeaths(v *verdict, wrong complaint, deaths []int64, c conditions) {
	for _, l := range s.begun {
		if !slices.ContainsFunc(deaths, func(at int64) bool {
			return l.At+c.Known.Microseconds() <= at && at < l.At+l.Lasts
		}) {
			continue
		}
		v.Old++
		if s.counted(l) {
			v.Kept++
		} else if c.OnlyNodes {
			wrong(ruleRunAgain, "%+v, but there stands %+v", l, s.steps)
		}
	}
	if !c.OnlyStore {
		return
	}
	for _, l := range s.begun {
		if !s.counted(l) {
			wrong(ruleDisturbed, "%+v, but there stands %+v", l, s.steps)
		}
	}
}

// counted tells whether a hand-out that began was worth it: its own outcome stands, and it was not
// given back.
func (s *story) counted(began line) bool {
	return slices.ContainsFunc(s.steps, func(step line) bool {
		return handOf(step) == handOf(began) && step.Kind.Reportable() &&
			step.Kind != task.KindRelease
	})
}
