package rules

import (
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// ContextsExamined is how many steps one page of contexts looks at, at most.
const ContextsExamined = 1000

// Handed chooses those steps of a task from which on it had another stage or another context than
// before. list are steps that follow each other, oldest first: from the newest one before q.From
// on, or else from what was submitted, as a step, and at most ContextsExamined behind that. next is
// where to go on, 0 at the end.
func Handed(
	q store.ContextsQuery, list []store.ContextStep,
) (chosen []store.ContextStep, next int32) {
	for i, s := range list {
		same := i > 0 && s.Stage == list[i-1].Stage && s.ContextSeq == list[i-1].ContextSeq
		if s.Seq+1 < q.From || same {
			continue
		}
		if len(chosen) == q.Limit {
			return chosen, s.Seq + 1
		}
		chosen = append(chosen, s)
	}
	if len(list) > ContextsExamined {
		next = list[len(list)-1].Seq + 2
	}
	return chosen, next
}

// Contexts makes a page of what Handed chose, with the contexts that value resolves, as far as
// q.Bytes reach. next is where to go on behind all of them.
func Contexts(
	q store.ContextsQuery, chosen []store.ContextStep, next int32,
	value func(store.Value) ([]byte, error),
) (page []task.StageContext, more int32, err error) {
	size := 0
	for i := range chosen {
		s := &chosen[i]
		text, err := value(s.Context)
		if err != nil {
			return nil, 0, err
		}
		if size += len(text); i > 0 && size > q.Bytes {
			return page, s.Seq + 1, nil
		}
		page = append(page, task.StageContext{
			Seq: s.Seq, Stage: s.Stage, Outcome: s.Kind, By: s.By, Time: time.UnixMicro(s.At).UTC(),
			Context: text,
		})
	}
	return page, next, nil
}
