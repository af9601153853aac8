package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// familyClaims is what holds of the tasks that a picture shows.
func familyClaims() []claim {
	return []claim{
		{"FamiliesAreTasksAndTheirChildren", func(s *scene) {
			a := s.join("a")
			at := s.clock.Micros()
			o := s.handed(a)
			s.clock.Advance(time.Second)
			ids := s.spawnAnd(o, s.ran(o, time.Second, task.Next("second", nil)),
				s.brood("q", 0, 3), s.brood("r", 3, 70))
			ended := s.clock.Micros()
			list := s.families(100, o.ID(), ids[5], task.ID{Batch: 5})
			s.want("how many", len(list), 3)
			s.want("its children", list[0].Children, ids)
			s.want("how they stand", *list[0].Task.Children, task.Children{Total: 73})
			s.want("what it is", []any{list[0].Task.ID, list[0].Task.Stage, list[0].Task.State},
				[]any{o.ID(), "second", task.Ready})
			s.want("its times", []any{list[0].Began, list[0].Finished},
				[]any{instant(at), instant(ended)})
			s.want("of one without", []any{
				list[1].Task.ID, list[1].Task.Children == nil, list[1].Children,
				list[1].Began.IsZero(), list[1].Finished.IsZero(),
			}, []any{ids[5], true, []task.ID(nil), true, true})
			s.want("of nobody", list[2].Task.ID, task.ID{})

			live := map[task.ID]store.Live{ids[1]: {Worker: "x", Started: at + 7, Attempt: 1}}
			got, err := s.Families(s.ctx, store.FamilyQuery{IDs: ids[1:2], Live: live})
			s.ok(err)
			s.want("as a node knows it", []any{got[0].Task.State, got[0].Task.Worker, got[0].Began},
				[]any{task.Running, "x", instant(at + 7)})
			none, err := s.Families(s.ctx, store.FamilyQuery{})
			s.ok(err)
			s.want("of none", len(none), 0)
		}},
		{"ChildrenOfFamiliesAreBoundedInTheirOrder", func(s *scene) {
			a := s.join("a")
			x, y := s.handed(a), s.handed(a)
			ofX := s.spawn(x, task.Next("", nil), s.brood("q", 0, 5), s.brood("r", 5, 1))
			ofY := s.spawn(y, task.Next("", nil), s.brood("q", 0, 3))
			for room, want := range map[int][2][]task.ID{
				4: {ofX[:4]}, 6: {ofX}, 7: {ofX, ofY[:1]}, 9: {ofX, ofY}, 99: {ofX, ofY},
			} {
				list := s.families(room, x.ID(), y.ID())
				s.want(fmt.Sprint("with room for ", room), [2][]task.ID{
					list[0].Children, list[1].Children,
				}, want)
				s.want("how many there are", []int64{
					list[0].Task.Children.Total, list[1].Task.Children.Total,
				}, []int64{6, 3})
			}
			list := s.families(4, y.ID(), x.ID())
			s.want("the other way round", [2][]task.ID{list[0].Children, list[1].Children},
				[2][]task.ID{ofY, ofX[:1]})
		}},
		{"FamiliesAreOfThePresentRun", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			s.spawn(o, task.Fail(errNo), s.brood("q", 0, 2))
			s.clock.Advance(time.Second)
			s.act(task.KindReplayed, o.ID())
			list := s.families(9, o.ID())
			s.want("when it began anew", []any{
				list[0].Task.Children == nil, list[0].Children, list[0].Began.IsZero(),
			}, []any{true, []task.ID(nil), true})
			s.clock.Advance(time.Second)
			again := s.takeOnly(a, o.ID())
			at := s.clock.Micros()
			ids := s.spawn(again, task.Finish(nil), s.brood("q", 0, 1))
			list = s.families(9, o.ID())
			s.want("of its new run", []any{list[0].Children, *list[0].Task.Children, list[0].Began},
				[]any{ids, task.Children{Total: 1}, instant(at)})
		}},
		{"FamiliesTellWhatTasksWaitFor", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 2)
			c := s.waiting(on(b, 0, "x"), on(b, 1, ""))
			d := s.waiting(on(b, 1, "y"))
			s.submit(a, b, c, d)
			first, ofC, ofD := task.ID{Batch: b.ID}, task.ID{Batch: c.ID}, task.ID{Batch: d.ID}
			for after, want := range map[int][2]int{0: {}, 1: {2}, 2: {2}, 3: {2, 1}, 99: {2, 1}} {
				list, err := s.Families(s.ctx, store.FamilyQuery{
					IDs: []task.ID{first, ofC, ofD}, After: after,
				})
				s.ok(err)
				s.want(fmt.Sprint("with room for ", after), [3]int{
					len(list[0].Task.After), len(list[1].Task.After), len(list[2].Task.After),
				}, [3]int{0, want[0], want[1]})
				if after == 99 {
					s.want("as its own view", list[1].Task.After, s.view(ofC).After)
				}
			}
		}},
		{"FamiliesTellOfTasksThatMarksSayAreDone", func(s *scene) {
			a := s.join("a")
			s.submit(a, s.batch("q", 8))
			outs := s.takeThose(a, 8)
			at := s.clock.Micros()
			s.clock.Advance(time.Second)
			var reports []store.Report
			var ids []task.ID
			for _, o := range outs {
				reports = append(reports, s.ran(o, time.Second, task.Finish(nil)))
				ids = append(ids, o.ID())
			}
			s.recorded(reports...)
			list := s.families(9, ids...)
			s.want("all of them", slices.IndexFunc(list, func(f store.Family) bool {
				return f.Task.State != task.Done || f.Began != instant(at) ||
					f.Finished != instant(s.clock.Micros())
			}), -1)
		}},
	}
}

func (s *scene) families(children int, ids ...task.ID) []store.Family {
	list, err := s.Families(s.ctx, store.FamilyQuery{IDs: ids, Children: children})
	s.ok(err)
	return list
}
