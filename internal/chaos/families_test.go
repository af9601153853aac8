package chaos

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// Some tasks spawn others with an outcome and go on when these are over, some wait for a signal.
// The mark of a child is that of its parent and a number, as s0-17+2, and check keeps a family
// together.

const (
	ruleBrood    rule = "an outcome stands without its children"
	ruleOrphan   rule = "children stand without the outcome that spawned them"
	ruleWentOn   rule = "a task went on before its children were over"
	ruleTold     rule = "a task was told otherwise what ended its wait"
	ruleUnheard  rule = "an acknowledged signal did not end the wait"
	ruleUnsent   rule = "a signal ended a wait that nobody had sent"
	ruleTooEarly rule = "a wait was over before its time"
)

// Stages of tasks that have waited.
const (
	stageGather = "gather" // for children
	stageTold   = "told"   // for a signal, which came
	stageLate   = "late"   // for one that did not come in time
)

// signalName is what signals are called, and signalWithin how long a task waits for one.
const (
	signalName   = "go"
	signalWithin = 6 * time.Second
)

// childOf makes the mark of child i.
func childOf(mark string, i int) string { return fmt.Sprintf("%s+%d", mark, i) }

// familyOf is the mark of the task that a mark's task is a child of, or its own.
func familyOf(mark string) string {
	family, _, _ := strings.Cut(mark, "+")
	return family
}

// brood makes the children of a task: always the same ones, whoever has the hand-out. lines are
// what is to be written down before they are submitted.
func brood(mark, who string) (list []task.Submission, lines []line) {
	luck := crc32.ChecksumIEEE([]byte(mark))
	for i := range 2 + int(luck%4) {
		o := order{Mark: childOf(mark, i), Work: quick}
		switch (luck >> (4 * i)) % 8 {
		case 0:
			o.Work = fails
		case 1:
			o.Work = flaky
		case 2:
			o.Work = steady
		}
		text, err := json.Marshal(o)
		if err != nil {
			panic(err) // strings
		}
		list = append(list, task.Submission{Queue: queueShort, GroupKey: o.Mark, Context: text})
		lines = append(lines, o.asked(who, text))
	}
	return list, lines
}

// gathered is what a task is told of its children.
func gathered(c *task.Children) string {
	return fmt.Sprintf("%d: %d done, %d dead, %d others", c.Total, c.Done, c.Dead,
		c.Total-c.Done-c.Dead)
}

// timedOut is what a task is told whose wait nothing ended.
const timedOut = "nothing came"

// judgeFamilies looks at tasks with children and at those that wait for a signal.
func judgeFamilies(v *verdict, stories map[string]*story) {
	for mark, s := range stories {
		if len(s.asked) == 0 || len(s.stands) == 0 {
			continue
		}
		wrong := func(r rule, format string, args ...any) {
			v.wrong(r, mark+": "+format, args...)
		}
		if s.asked[0].Work == families {
			s.judgeBrood(v, mark, stories, wrong)
		}
		if s.asked[0].Work == waits {
			s.judgeSignal(v, mark, wrong)
		}
	}
}

// spawned is the step with which a task began to wait.
func (s *story) spawned() (line, bool) {
	i := slices.IndexFunc(s.steps, func(l line) bool { return l.Kind == task.KindNext })
	if i < 0 {
		return line{}, false
	}
	return s.steps[i], true
}

// judgeBrood holds a task's outcome against its children: all of them stand or none, and it went on
// when they were over, and was told how.
func (s *story) judgeBrood(v *verdict, mark string, stories map[string]*story, wrong complaint) {
	children, _ := brood(mark, "")
	step, stands := s.spawned()
	var all task.Children
	var over int64 // until when the last of them certainly ran
	for i := range children {
		child := stories[childOf(mark, i)]
		switch {
		case child == nil || len(child.stands) == 0:
			if stands {
				wrong(ruleBrood, "child %d is not there after %+v", i, step)
			}
			continue
		case !stands:
			wrong(ruleOrphan, "child %d is %+v", i, child.stands)
		}
		all.Total++
		runs, _ := child.runs(childOf(mark, i))
		for _, r := range runs {
			over = max(over, r.to)
		}
		for _, l := range child.steps {
			switch {
			case !l.Final:
			case l.Kind.Leaves() == task.Done:
				all.Done++
			case l.Kind.Leaves() == task.Dead:
				all.Dead++
			}
		}
	}
	for _, l := range s.begun {
		if l.Stage != stageGather {
			continue
		}
		v.Gathered++
		if l.At < over {
			wrong(ruleWentOn, "%+v, but a child ran until %d", l, over)
		}
		if want := gathered(&all); l.Told != want {
			wrong(ruleTold, "%+v, but there were %s", l, want)
		}
	}
}

// judgeSignal holds what ended a task's wait against what was sent to it.
func (s *story) judgeSignal(v *verdict, mark string, wrong complaint) {
	step, stands := s.spawned()
	if !stands {
		return
	}
	due := step.At + signalWithin.Microseconds()
	for _, l := range s.begun {
		switch l.Stage {
		case stageTold:
			v.Woken++
			if l.Told != mark {
				wrong(ruleTold, "%+v", l)
			}
			if len(s.sent) == 0 {
				wrong(ruleUnsent, "%+v", l)
			}
		case stageLate:
			v.Late++
			if l.Told != timedOut {
				wrong(ruleTold, "%+v", l)
			}
			if l.At < due {
				wrong(ruleTooEarly, "%+v after %+v", l, step)
			}
			for _, sent := range s.heard {
				if sent.At < due {
					wrong(ruleUnheard, "%+v after %+v: %+v", l, step, sent)
				}
			}
		}
	}
}
