package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// metaEdit is an edit of what a task carries.
func metaEdit(m store.Meta) store.Edit { return store.Edit{Meta: &m} }

// editedMetaClaims is what holds for the short strings of tasks when edits change them.
func editedMetaClaims() []claim {
	const seven, eight = store.Meta(`{"customer":"7","region":"eu"}`), store.Meta(`{"customer":"8"}`)
	return []claim{
		{"EditReplacesTheMetaOfItsTaskWhole", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 3)
			for i := range b.Tasks {
				b.Tasks[i].Meta = seven
			}
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID, N: 1}
			s.edited(h, id, metaEdit(eight))
			s.want("view", s.view(id).Meta, eight.Strings())
			s.want("steps", s.stepsOf(id), []string{"edited somebody [meta]"})
			s.want("stand", s.stand(id).Meta, eight)
			page, _, err := s.Tasks(s.ctx, store.Filter{Queue: "q"}, task.ID{}, 10)
			s.ok(err)
			for i, want := range []store.Meta{seven, eight, seven} {
				s.want("in lists", page[2-i].Meta, want.Strings())
			}
			want := map[task.ID]store.Meta{
				id: eight, {Batch: b.ID}: seven, {Batch: b.ID, N: 2}: seven,
			}
			for range want {
				o := s.nextOne(h)
				s.want("handed out", o.Meta, want[o.ID()])
				s.recorded(o.Report(s.clock, task.Finish(nil)))
				s.want("when it is done", s.view(o.ID()).Meta, want[o.ID()].Strings())
			}
		}},
		{"EditedMetaIsKeptByteForByte", func(s *scene) {
			h := s.join("a")
			all := metas()
			b := s.batch("q", len(all))
			for i := range b.Tasks {
				b.Tasks[i].Meta = store.MetaOf(all[len(all)-1-i])
			}
			s.submit(store.Holder{}, b)
			for i, m := range all {
				s.edited(h, task.ID{Batch: b.ID, N: int32(i)}, metaEdit(store.MetaOf(m)))
			}
			for range all {
				o := s.nextOne(h)
				s.want("handed out", o.Meta, store.MetaOf(all[o.N]))
				s.want("view", s.view(o.ID()).Meta, all[o.N])
			}
		}},
		{"EditedMetaHoldsWhateverBecomesOfTheTask", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 1)
			b.Tasks[0].Meta = seven
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID}
			s.edited(h, id, metaEdit(eight))
			look := func(what string) {
				s.want(what, []any{s.stand(id).Meta, s.view(id).Meta},
					[]any{eight, eight.Strings()})
				s.want(what+", by its meta", s.list(store.Filter{Meta: eight}), []task.ID{id})
				s.want(what+", by the old one", len(s.list(store.Filter{Meta: seven})), 0)
			}
			o := s.nextOne(h)
			s.sync(h, o)
			look("running")
			s.recorded(o.Report(s.clock, task.Next("second", nil)))
			look("in the second stage")
			o = s.takeAgain(h, o)
			s.want("handed out in the second stage", o.Meta, eight)
			s.recorded(o.Report(s.clock, task.Snooze(time.Hour))) // into a span of its own
			look("asleep")
			s.clock.Advance(time.Hour)
			o = s.nextOne(s.join("b")) // its node has died
			s.want("handed out by another node", o.Meta, eight)
			s.recorded(o.Report(s.clock, task.Fail(errors.New("no"))))
			look("dead")
			for _, r := range []store.Replay{{}, {Whole: true}, {Stage: new("second")}} {
				s.want("replay", s.replay(id, r).Changed, true)
				look(fmt.Sprintf("replayed %+v", r))
				o = s.nextOne(s.join("b"))
				s.want("handed out after a replay", o.Meta, eight)
				s.recorded(o.Report(s.clock, task.Fail(errors.New("no"))))
			}
			s.replay(id, store.Replay{})
			s.changed(task.KindMoved, id)
			look("moved")
			s.changed(task.KindCancelled, id)
			look("cancelled")
		}},
		{"EditOfAnotherFieldLeavesTheEditedMeta", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 1)
			b.Tasks[0].Meta = seven
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID}
			later := s.clock.Micros()
			for _, first := range []store.Edit{metaEdit(eight), metaEdit("")} {
				s.edited(h, id, first)
				for _, e := range []store.Edit{
					{Priority: new(int64(1))}, {GroupKey: new("g")}, {Due: &later},
					{Context: new(store.Value(`1`))}, {MaxAttempts: new(int32(2))},
					{StartWithin: new(int64(3600e6))},
				} {
					s.edited(h, id, e)
					what := "after an edit of " + e.Changes().String()
					s.want(what, []any{s.stand(id).Meta, s.view(id).Meta},
						[]any{*first.Meta, first.Meta.Strings()})
					s.want(what+", by its meta", len(s.list(store.Filter{Meta: eight})),
						len(first.Meta.Strings()))
					s.want(what+", by the submitted one", len(s.list(store.Filter{Meta: seven})), 0)
				}
			}
			s.want("handed out", s.nextOne(h).Meta, store.Meta(""))
		}},
		{"EditGivesAMetaToATaskThatHadNone", func(s *scene) {
			h := s.join("a")
			id := s.put(20)[11]
			s.edited(h, id, metaEdit(eight))
			s.want("by its meta", s.list(store.Filter{Meta: eight}), []task.ID{id})
			s.want("handed out", s.nextOne(h).ID().N == 11, false) // it keeps its place
			s.edited(h, id, metaEdit(""))
			s.want("by the meta that it had", len(s.list(store.Filter{Meta: eight})), 0)
			s.want("view", len(s.view(id).Meta), 0)
		}},
		{"EveryFilterSelectsByTheMetaThatEditsGave", showEditedMetaFilters},
		{"RetentionLeavesTheEditedMetaOfOthersInThePack", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 12)
			for i := range b.Tasks {
				b.Tasks[i].Meta = seven
			}
			s.submit(store.Holder{}, b)
			gone, stays := task.ID{Batch: b.ID, N: 3}, task.ID{Batch: b.ID, N: 7}
			s.edited(h, gone, metaEdit(eight))
			s.edited(h, stays, metaEdit(eight))
			s.changed(task.KindRemoved, gone)
			s.want("by their meta", s.list(store.Filter{Meta: eight}), []task.ID{stays})
			s.want("of the other one", len(s.list(store.Filter{Meta: seven})), 10)
			s.clock.Advance(365 * 24 * time.Hour)
			s.prune()
			s.want("by their meta after it was swept", s.list(store.Filter{Meta: eight}),
				[]task.ID{stays})
			s.want("of the others", len(s.list(store.Filter{Meta: seven})), 10)
		}},
	}
}

// showEditedMetaFilters changes the metas of tasks in a wide batch and in a narrow one, brings them
// into every state, and asks for them in every way by what they carry and by what they carried.
func showEditedMetaFilters(s *scene) {
	const old, fresh = store.Meta(`{"customer":"7","region":"eu"}`),
		store.Meta(`{"customer":"8","region":"eu"}`)
	h := s.join("a")
	const done, dead, running, cancelled, ready, waits, size = 0, 1, 2, 3, 4, 5, 70
	for _, n := range []int{size, waits + 1} {
		b := s.batch("q", n)
		for i := range b.Tasks {
			b.Tasks[i].Meta = old
		}
		key := fmt.Sprint("k", n)
		b.Tasks[dead].Key, b.Tasks[dead].KeyUntil = key, b.Due+1e15
		s.submit(h, b)
		of := func(n int32) []task.ID { return []task.ID{{Batch: b.ID, N: n}} }
		for i := range int32(waits + 1) {
			s.edited(h, of(i)[0], metaEdit(fresh))
		}
		later := s.clock.Micros() + 3600e6
		s.edited(h, of(waits)[0], store.Edit{Due: &later})
		s.recorded(s.takeOnly(h, of(done)[0]).Report(s.clock, task.Finish(nil)),
			s.takeOnly(h, of(dead)[0]).Report(s.clock, task.Fail(errors.New("no"))))
		s.sync(h, s.takeOnly(h, of(running)[0]))
		s.changed(task.KindCancelled, of(cancelled)[0])
		for _, c := range []struct {
			what   string
			filter store.Filter
			want   []task.ID
		}{
			{"done", store.Filter{State: task.Done}, of(done)},
			{"dead", store.Filter{State: task.Dead}, of(dead)},
			{"running", store.Filter{State: task.Running}, of(running)},
			{"cancelled", store.Filter{State: task.Cancelled}, of(cancelled)},
			{"ready", store.Filter{State: task.Ready}, of(ready)},
			{"waiting", store.Filter{State: task.Waiting}, of(waits)},
			{"a key", store.Filter{Key: key}, of(dead)},
			{"a worker", store.Filter{Worker: "w", State: task.Done}, of(done)},
			{"a worker and a stage", store.Filter{Worker: "w", Stage: "first", State: task.Dead},
				of(dead)},
		} {
			c.filter.Meta = `{"customer":"8"}`
			s.want("edited tasks of "+c.what, s.inBatch(b.ID, c.filter), c.want)
			c.filter.Meta = `{"customer":"7"}`
			if c.what != "ready" {
				s.want("tasks of before of "+c.what, len(s.inBatch(b.ID, c.filter)), 0)
			}
		}
		s.want("edited tasks", len(s.inBatch(b.ID, store.Filter{Meta: fresh})), waits+1)
		s.want("edited tasks of the queue",
			len(s.inBatch(b.ID, store.Filter{Meta: fresh, Queue: "q", Stage: "first"})), waits+1)
		s.want("the others", len(s.inBatch(b.ID, store.Filter{Meta: old})), n-waits-1)
		s.want("both", len(s.inBatch(b.ID, store.Filter{Meta: `{"region":"eu"}`})), n)
	}
}

// inBatch lists the tasks of one batch that a filter selects.
func (s *scene) inBatch(batch int64, f store.Filter) (ids []task.ID) {
	for _, id := range s.list(f) {
		if id.Batch == batch {
			ids = append(ids, id)
		}
	}
	return ids
}
