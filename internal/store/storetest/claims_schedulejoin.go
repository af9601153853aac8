package storetest

import (
	"fmt"
	"sync"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// joinClaims is what holds for schedules that follow several others, and for the runs to which
// fires belong.
func joinClaims() []claim {
	return []claim{
		{"AScheduleFollowsSeveral", func(s *scene) {
			s.putAll(s.newSchedule("a", store.Never), s.newSchedule("b", store.Never),
				s.follower("c", "a,b"), s.follower("d", "b"))
			for leaders, want := range map[string][]string{
				"a": {"c"}, "b": {"c", "d"}, "c": nil, "a,b": {"c", "d"}, "d,none": nil,
			} {
				is := task.Schedule{After: leaders}
				s.want("those that follow "+leaders,
					names(s.listed(store.ScheduleQuery{Follows: is.Parents()})), want)
			}
			s.want("of two names", names(s.listed(store.ScheduleQuery{Names: []string{"a", "c"},
				Follows: []string{"b"}})), []string{"c"})
			for _, leader := range []string{"a", "b"} {
				s.wantErr("delete "+leader, s.DeleteSchedule(s.ctx, leader), store.ErrConflict)
			}
			_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{s.follower("e", "a,none")},
			})
			s.wantErr("to follow one that there is not", err, store.ErrNotFound)
			s.replaced(s.one("c"), func(p *store.SchedulePut) { p.After = "b" })
			s.ok(s.DeleteSchedule(s.ctx, "a"))
			s.ok(s.DeleteSchedule(s.ctx, "d"))
			s.want("those that follow b", names(s.listed(store.ScheduleQuery{
				Follows: []string{"b"},
			})), []string{"c"})
		}},
		{"NoScheduleFollowsItselfByOneOfSeveral", func(s *scene) {
			stand := s.putAll(s.newSchedule("a", store.Never), s.newSchedule("b", store.Never),
				s.follower("c", "a,b"), s.follower("d", "a,c"))
			for what, puts := range map[string][]store.SchedulePut{
				"by the second parent":    {s.followed(stand[1], "d")},
				"two halves at once":      {s.followed(stand[0], "e"), s.follower("e", "b,d")},
				"by a parent of a parent": {s.followed(stand[0], "b,d")},
			} {
				_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{Puts: puts})
				s.wantErr(what, err, store.ErrConflict)
			}
			s.putAll(s.follower("e", "a,b,c,d")) // a diamond is no circle
		}},
		{"TwoChangesMakeNoCircleAtOnce", func(s *scene) {
			for range 5 {
				stand := s.putAll(s.newSchedule("a", store.Never), s.newSchedule("b", store.Never),
					s.newSchedule("z", store.Never))
				puts := []store.SchedulePut{
					s.followed(stand[0], "z,b"), s.followed(stand[1], "z,a"),
				}
				var both sync.WaitGroup
				var errs [2]error
				for i := range puts {
					both.Go(func() {
						_, errs[i] = s.ChangeSchedules(s.ctx, store.ScheduleChange{
							Puts: puts[i : i+1],
						})
					})
				}
				both.Wait()
				done := 0
				for _, err := range errs {
					if err == nil {
						done++
						continue
					}
					s.wantErr("the other half", err, store.ErrConflict)
				}
				s.want("halves that are put", done, 1)
				follower := s.listed(store.ScheduleQuery{Follows: []string{"z"}})[0].Name
				s.ok(s.DeleteSchedule(s.ctx, follower))
				for _, name := range []string{"a", "b", "z"} {
					if name != follower {
						s.ok(s.DeleteSchedule(s.ctx, name))
					}
				}
			}
		}},
		{"ATurnIsTakenOnce", func(s *scene) {
			now := s.clock.Micros()
			s.putAll(s.newSchedule("a", store.Never), s.newSchedule("b", store.Never))
			is := s.putAll(s.follower("c", "a,b"))[0]
			turn := func(at, tail int64) store.FirePart {
				p := s.aside(is, store.Fire{
					At: at, Origin: task.OriginAfter, Outcome: task.FireFired,
					Run: store.FireKey{Schedule: "b", At: at},
					Parents: []store.FireKey{
						{Schedule: "a", At: now - 90}, {Schedule: "b", At: at},
					},
				})
				p.Tail = tail
				return p
			}
			s.want("when there is none", refusals(s.fire(s.firing(turn(now-50, now-50)))),
				[]string{store.FireMoved})
			s.want("two that saw the same", refusals(s.fire(
				s.firing(turn(now-50, -1), turn(now-40, -1)))), []string{"", store.FireMoved})
			s.want("by somebody who was late", refusals(s.fire(s.firing(turn(now-30, -1)))),
				[]string{store.FireMoved})
			s.fired(s.aside(is, row(now-20, task.FireFired))) // it has no parents
			s.want("two that saw one another", refusals(s.fire(
				s.firing(turn(now-30, now-50), turn(now-10, now-30)))), []string{"", ""})
			s.want("rows", len(s.fires(store.FireQuery{Schedule: "c"})), 4)
			s.want("tasks", s.counts(), task.Counts{Ready: 4})
		}},
		{"FiresBelongToTheirRun", func(s *scene) {
			now := s.clock.Micros()
			a := s.schedule("a", now-50)
			s.fired(s.on(a, now-50, now+5))
			list := s.putAll(s.follower("b", "a"), s.follower("c", "a,b"))
			root := store.FireKey{Schedule: "a", At: now - 50}
			of := func(at int64, run store.FireKey, parents ...store.FireKey) store.Fire {
				return store.Fire{At: at, Origin: task.OriginAfter, Outcome: task.FireFired,
					Run: run, Parents: parents}
			}
			s.fired(s.aside(list[0], of(now-50, root, root)))
			s.fired(s.aside(list[0], row(0, task.FireFired)))
			s.fired(s.aside(list[1], of(now-40, root, root,
				store.FireKey{Schedule: "b", At: now - 50})))
			run := s.run(root, 10)
			s.want("the run", fmt.Sprint(keysOf(run)), fmt.Sprint([]store.FireKey{root,
				{Schedule: "b", At: now - 50}, {Schedule: "c", At: now - 40}}))
			s.want("each is of it", []store.FireKey{run[0].Run, run[1].Run, run[2].Run},
				[]store.FireKey{root, root, root})
			s.want("the last came of", run[2].Parents,
				[]store.FireKey{root, {Schedule: "b", At: now - 50}})
			s.want("the rows", s.fires(store.FireQuery{Schedule: "c"}), run[2:])
			s.want("at most two", len(s.run(root, 2)), 2)
			s.want("of none", len(s.run(store.FireKey{Schedule: "a", At: now - 49}, 9)), 0)
			s.want("what is of another run begins none",
				len(s.run(store.FireKey{Schedule: "b", At: now - 50}, 9)), 0)
			alone := s.fires(store.FireQuery{Schedule: "b", Newest: true})[0]
			s.want("one by hand is its own", alone.Run,
				store.FireKey{Schedule: "b", At: alone.At})
			s.want("and all of its run", s.run(alone.Run, 9), []store.Fire{alone})
			s.ok(s.DeleteSchedule(s.ctx, "c"))
			s.want("without one that is deleted", len(s.run(root, 9)), 2)
		}},
		{"AFireEndsWithTheChangeThatItCallsFor", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			id := s.fired(s.aside(is, watched(now-5, task.FireFired))).Fires[0].Task
			end := store.FireEnd{
				Schedule: "s", At: now - 5, Task: id, Ended: task.KindFail, Seq: 0,
			}
			pause := func(ends ...store.FireEnd) error {
				_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
					Puts: []store.SchedulePut{caller.Seen(s.one("s"), func(p *store.SchedulePut) {
						p.Paused, p.Since = !p.Paused, p.Since+1
					})}, Ends: ends,
				})
				return err
			}
			other := end
			other.Task.N++
			s.wantErr("with the end of another task", pause(end, other), store.ErrConflict)
			s.want("paused then", s.one("s").Paused, false)
			s.want("open then", len(s.open(store.OpenQuery{})), 1)
			s.ok(pause(end))
			s.want("paused", s.one("s").Paused, true)
			s.want("open", len(s.open(store.OpenQuery{})), 0)
			s.wantErr("once more", pause(end), store.ErrConflict)
			s.want("paused still", s.one("s").Paused, true)
		}},
	}
}

// follower puts a schedule that was not there and follows others.
func (s *scene) follower(name, after string) store.SchedulePut {
	p := s.newSchedule(name, store.Never)
	p.Cron, p.After = "", after
	return p
}

// followed lets a schedule follow others.
func (s *scene) followed(is store.Schedule, after string) store.SchedulePut {
	return caller.Seen(is, func(p *store.SchedulePut) { p.Cron, p.After = "", after })
}

func (s *scene) run(root store.FireKey, limit int) []store.Fire {
	list, err := s.RunFires(s.ctx, root, limit)
	s.ok(err)
	return list
}

// keysOf says where fires stand.
func keysOf(list []store.Fire) (keys []store.FireKey) {
	for i := range list {
		keys = append(keys, store.FireKey{Schedule: list[i].Schedule, At: list[i].At})
	}
	return keys
}
