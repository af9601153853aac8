package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// contextClaims is what holds for the contexts that stages were handed.
func contextClaims() []claim {
	return []claim{
		{"ContextsTellWhatEachStageWasHanded", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			began := s.clock.Now()
			s.want("submitted", s.contextsOf(id), []string{`-1 first: [0]`})
			s.want("nobody wrote it, and it was submitted when the task was",
				s.contextPage(id, 0, 9, 99)[0].Time, began.UTC())
			o := s.takeOnly(h, id)
			s.clock.Advance(time.Second)
			s.recorded(o.Report(s.clock, withContext(task.Next("second", nil), `{"a":1}`)))
			next := s.clock.Now()
			s.edited(h, id, store.Edit{Context: new(store.Value(`{"a":2}`))})
			o = s.nextOne(h)
			s.recorded(o.Report(s.clock, task.Retry(fmt.Errorf("no luck")))) // changes nothing
			s.clock.Advance(time.Second)
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Next("third", nil)))
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			all := []string{
				`-1 first: [0]`, `0 next by w second: {"a":1}`, `1 edited by somebody second: {"a":2}`,
				`3 next by w third: {"a":2}`,
			}
			s.want("done", s.contextsOf(id), all)
			s.want("when", s.contextPage(id, 1, 1, 99)[0].Time, next.UTC())
			s.changed(task.KindReplayed, id)
			all = append(all, `5 replayed by somebody first: [0]`)
			s.want("replayed", s.contextsOf(id), all)
			for n := 1; n <= 5; n++ {
				s.want(fmt.Sprintf("in pages of %d", n), s.contextsIn(id, n, 99), all)
				s.want(fmt.Sprintf("in pages of %d bytes", n), s.contextsIn(id, 9, n), all)
			}
		}},
		{"ContextsOfPlainTasksAreWhatWasSubmitted", func(s *scene) {
			h := s.join("a")
			outs := s.takeMany(h, 6)
			var ids []task.ID
			for _, o := range outs {
				ids = append(ids, o.ID())
			}
			s.recorded(finishAll(s, outs)...)
			s.want("marked", s.contextsOf(ids[4]), []string{`-1 first: [4]`})
			s.want("behind it", s.contextPage(ids[4], 1, 9, 99), []task.StageContext(nil))
			s.changed(task.KindReplayed, ids[4])
			s.want("a replay in the same stage hands it the same", s.contextsOf(ids[4]),
				[]string{`-1 first: [4]`})
			s.edited(h, ids[4], store.Edit{Context: new(store.Value(nil))})
			s.want("taken away", s.contextsOf(ids[4]),
				[]string{`-1 first: [4]`, `2 edited by somebody first: `})
			s.want("its neighbour", s.contextsOf(ids[3]), []string{`-1 first: [3]`})
		}},
		{"ContextsOfATaskWithoutOneAreEmpty", func(s *scene) {
			b := s.batch("q", 1)
			b.Tasks[0].Context = nil
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID}
			s.want("submitted", s.contextsOf(id), []string{`-1 first: `})
			o := s.takeOne(s.join("a"))
			s.recorded(o.Report(s.clock, task.Next("second", nil)))
			s.want("next", s.contextsOf(id), []string{`-1 first: `, `0 next by w second: `})
			_, _, err := s.Contexts(s.ctx, store.ContextsQuery{ID: task.ID{Batch: b.ID, N: 1}})
			s.wantErr("contexts of no task", err, store.ErrNotFound)
			s.changed(task.KindRemoved, id)
			_, _, err = s.Contexts(s.ctx, store.ContextsQuery{ID: id, Limit: 1})
			s.wantErr("contexts of a removed task", err, store.ErrNotFound)
		}},
		{"ContextsOfAChildAreItsOwn", func(s *scene) {
			h := s.join("a")
			o := s.handed(h)
			ids := s.spawn(o, withContext(task.Next("join", nil), `"parent"`), s.brood("q", 0, 2))
			s.want("parent", s.contextsOf(o.ID()),
				[]string{`-1 first: [0]`, `0 next by w join: "parent"`})
			s.want("child", len(s.contextsOf(ids[1])), 1)
		}},
		{"LargeContextsComeAsTheyAre", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			large := `"` + strings.Repeat("x", 2*store.InlineLimit) + `"`
			v, err := s.Keep(s.ctx, []byte(large))
			s.ok(err)
			r := s.takeOnly(h, id).Report(s.clock, task.Next("second", nil))
			r.Step.Context, r.Step.ContextSeq = v, r.Token.Seq
			s.recorded(r)
			got := s.contextPage(id, 0, 9, len(large)+3)
			s.want("contexts", []any{len(got), string(got[1].Context) == large}, []any{2, true})
			s.want("contexts in less", s.contextPage(id, 0, 9, len(large)+2), got[:1])
			s.want("one in far less", s.contextPage(id, 1, 9, 1), got[1:])
		}},
	}
}

// withContext is an outcome that leaves a context.
func withContext(o task.Outcome, text string) task.Outcome {
	o.Context = []byte(text)
	return o
}

// contextPage is a page of what the stages of a task were handed.
func (s *scene) contextPage(id task.ID, from int32, limit, bytes int) []task.StageContext {
	page, _, err := s.Contexts(s.ctx, store.ContextsQuery{
		ID: id, From: from, Limit: limit, Bytes: bytes,
	})
	s.ok(err)
	return page
}

// contextsOf is what the stages of a task were handed.
func (s *scene) contextsOf(id task.ID) []string { return s.contextsIn(id, 100, 1<<20) }

// contextsIn is contextsOf, in pages of so many and so many bytes.
func (s *scene) contextsIn(id task.ID, limit, bytes int) (list []string) {
	q := store.ContextsQuery{ID: id, Limit: limit, Bytes: bytes}
	for {
		page, next, err := s.Contexts(s.ctx, q)
		s.ok(err)
		size := 0
		for _, c := range page {
			size += len(c.Context)
			text := fmt.Sprint(c.Seq)
			if c.Outcome != 0 {
				text += fmt.Sprintf(" %s by %s", c.Outcome, c.By)
			}
			list = append(list, fmt.Sprintf("%s %s: %s", text, c.Stage, c.Context))
		}
		if len(page) > limit || len(page) > 1 && size > bytes {
			s.fail("page of %d contexts and %d bytes, want at most %d and %d", len(page), size,
				limit, bytes)
		}
		if next == 0 {
			return list
		}
		if next <= q.From {
			s.fail("contexts from %d on go on at %d", q.From, next)
		}
		q.From = next
	}
}
