package model

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scheduleBugs are wrong programs about what schedules are.
func scheduleBugs() []bug {
	return []bug{
		{"a schedule that is put as it is begins anew", "AScheduleThatIsPutAsItIsStaysAsItIs",
			func(p *planted) {
				p.changeSchedules = func(ctx context.Context,
					c store.ScheduleChange) ([]store.Schedule,
					error) {
					got, err := p.Model.ChangeSchedules(ctx, c)
					for i := range got {
						p.schedule(got[i].Name).Next, got[i].Next = c.Puts[i].Then, c.Puts[i].Then
					}
					return got, err
				}
			}},
		{"a schedule is replaced whatever was seen of it", "AScheduleIsReplacedOnlyAsItWasSeen",
			func(p *planted) {
				p.changeSchedules = func(ctx context.Context,
					c store.ScheduleChange) ([]store.Schedule,
					error) {
					c.Puts = slices.Clone(c.Puts)
					for i := range c.Puts {
						if s := p.schedule(c.Puts[i].Name); s != nil {
							c.Puts[i].Version, c.Puts[i].Next = s.Version, s.Next
						}
					}
					return p.Model.ChangeSchedules(ctx, c)
				}
			}},
		{"a schedule that comes again begins with version 1", "AScheduleThatComesAgainIsAnother",
			func(p *planted) {
				p.changeSchedules = func(ctx context.Context,
					c store.ScheduleChange) ([]store.Schedule,
					error) {
					p.sched.past = 0
					return p.Model.ChangeSchedules(ctx, c)
				}
			}},
		{"a deleted schedule leaves its fires behind", "AScheduleThatComesAgainIsAnother",
			func(p *planted) {
				p.deleteSchedule = func(ctx context.Context, name string) error {
					before := maps.Clone(p.sched.fires)
					err := p.Model.DeleteSchedule(ctx, name)
					p.sched.fires = before
					return err
				}
			}},
		{"what is followed is deleted", "WhatIsFollowedStays", func(p *planted) {
			p.deleteSchedule = func(ctx context.Context, name string) error {
				for _, s := range p.sched.schedules {
					if after := s.After; s.follows(name) {
						s.After = ""
						defer func() { s.After = after }()
					}
				}
				return p.Model.DeleteSchedule(ctx, name)
			}
		}},
		{"only the first parent is followed", "AScheduleFollowsSeveral", func(p *planted) {
			p.schedules = func(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule,
				error) {
				list, err := p.Model.Schedules(ctx, q)
				return slices.DeleteFunc(list, func(s store.Schedule) bool {
					return len(q.Follows) > 0 && !slices.Contains(q.Follows, s.Parents()[0])
				}), err
			}
		}},
		{"circles are looked for before the transaction", "TwoChangesMakeNoCircleAtOnce",
			func(p *planted) {
				// who checked while nobody followed anybody puts all the same
				p.changeSchedules = func(ctx context.Context,
					c store.ScheduleChange) ([]store.Schedule, error) {
					for name, s := range p.sched.schedules {
						put := slices.ContainsFunc(c.Puts, func(q store.SchedulePut) bool {
							return q.Name == name
						})
						if after := s.After; !put && after != "" {
							s.After = ""
							defer func() { s.After = after }()
						}
					}
					return p.Model.ChangeSchedules(ctx, c)
				}
			}},
		{"a change is made though its fire has ended", "AFireEndsWithTheChangeThatItCallsFor",
			func(p *planted) {
				p.changeSchedules = func(ctx context.Context,
					c store.ScheduleChange) ([]store.Schedule, error) {
					ends := c.Ends
					c.Ends = nil
					got, err := p.Model.ChangeSchedules(ctx, c)
					for _, e := range ends {
						p.sched.end(e)
					}
					return got, err
				}
			}},
		{"a calendar is replaced behind a schedule's back", "EachVersionHasOneSetOfDays",
			func(p *planted) {
				p.changeSchedules = func(ctx context.Context,
					c store.ScheduleChange) ([]store.Schedule,
					error) {
					if c.Calendar != nil && p.sched.calendars[c.Calendar.Name] != nil {
						for name, s := range p.sched.schedules {
							put := slices.ContainsFunc(c.Puts, func(q store.SchedulePut) bool {
								return q.Name == name
							})
							if s.Calendar == c.Calendar.Name && !put {
								s.Calendar = ""
								defer func() { s.Calendar = c.Calendar.Name }()
							}
						}
					}
					return p.Model.ChangeSchedules(ctx, c)
				}
			}},
		{"the days of a calendar are those that it has now", "EachVersionHasOneSetOfDays",
			func(p *planted) {
				p.eras = func(ctx context.Context, name string, from int64) ([]store.Schedule,
					error) {
					list, err := p.Model.Eras(ctx, name, from)
					for i := range list {
						list[i].Days = p.sched.calendars[list[i].Calendar]
					}
					return list, err
				}
			}},
		{"a calendar is deleted whoever has it",
			"CalendarsAreListedAndDeletedWhenNoScheduleHasThem", func(p *planted) {
				p.deleteCalendar = func(ctx context.Context, name string) error {
					err := p.Model.DeleteCalendar(ctx, name)
					if p.sched.calendars[name] != nil {
						delete(p.sched.calendars, name)
						return nil
					}
					return err
				}
			}},
		{"no era ends", "WhatAScheduleWasBecomesAnEra", func(p *planted) {
			p.eras = func(ctx context.Context, name string, from int64) ([]store.Schedule, error) {
				list, err := p.Model.Eras(ctx, name, 0)
				for i := range list {
					list[i].Until = 0
				}
				return list, err
			}
		}},
		{"pages of what is due begin at the beginning", "SchedulesAreListedByWhatTheyAre",
			func(p *planted) {
				p.dueOnes = func(ctx context.Context, q store.DueQuery) ([]store.Schedule, error) {
					q.After.Name = ""
					return p.Model.Due(ctx, q)
				}
			}},
		{"the last is the one that was written last", "TheLastIsTheNewestThatWasFired",
			func(p *planted) {
				p.schedules = func(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule,
					error) {
					list, err := p.Model.Schedules(ctx, q)
					for i := range list {
						for _, f := range p.sched.fires {
							if l := list[i].Last; l != nil && f.Schedule == l.Schedule &&
								fired(f) &&
								(f.Time > l.Time || f.Time == l.Time && f.At < l.At) {
								row := *f
								list[i].Last = &row
							}
						}
					}
					return list, err
				}
			}},
	}
}

// fireBugs are wrong programs about what comes of due times.
func fireBugs() []bug {
	return []bug{
		{"the cursor is moved from wherever it is", "OfWhatIsRefusedNothingIsDone",
			func(p *planted) {
				p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
					f.Parts = slices.Clone(f.Parts)
					for i := range f.Parts {
						if s := p.schedule(f.Parts[i].Schedule); s != nil && f.Parts[i].Next != 0 {
							f.Parts[i].Next = s.Next
						}
					}
					return p.Model.Fire(ctx, f)
				}
			}},
		{"an old version is fired", "OfWhatIsRefusedNothingIsDone", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				f.Parts = slices.Clone(f.Parts)
				for i := range f.Parts {
					if s := p.schedule(f.Parts[i].Schedule); s != nil {
						f.Parts[i].Version = s.Version
					}
				}
				return p.Model.Fire(ctx, f)
			}
		}},
		{"what is refused moves the cursor", "OfWhatIsRefusedNothingIsDone", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				got, err := p.Model.Fire(ctx, f)
				for i := range got.Parts {
					if got.Parts[i].Refused == store.FireEarly && f.Parts[i].Then != 0 {
						p.schedule(f.Parts[i].Schedule).Next = f.Parts[i].Then
					}
				}
				return got, err
			}
		}},
		{"the future is fired", "OfWhatIsRefusedNothingIsDone", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				f.Parts = slices.Clone(f.Parts)
				for i := range f.Parts {
					f.Parts[i].Fires = slices.Clone(f.Parts[i].Fires)
					for j := range f.Parts[i].Fires {
						row := &f.Parts[i].Fires[j]
						row.At = min(row.At, p.now().UnixMicro())
						row.Through = min(row.Through, p.now().UnixMicro())
					}
				}
				return p.Model.Fire(ctx, f)
			}
		}},
		{"tasks of what is refused are submitted", "WhatIsRefusedSpoilsNothingElse",
			func(p *planted) {
				p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
					got, err := p.Model.Fire(ctx, f)
					for i, part := range got.Parts {
						for _, row := range f.Parts[i].Fires {
							if b := p.batches[row.Task.Batch]; part.Refused != "" && b != nil {
								p.addTask(b, store.Task{N: row.Task.N}, got.Now)
							}
						}
					}
					return got, err
				}
			}},
		{"a turn is taken twice", "ATurnIsTakenOnce", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				f.Parts = slices.Clone(f.Parts)
				for i := range f.Parts {
					f.Parts[i].Tail = 0
				}
				return p.Model.Fire(ctx, f)
			}
		}},
		{"a node counts the tasks that it has fired itself", "NoMoreTasksRunThanAPartAllows",
			func(p *planted) {
				p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
					f.Parts = slices.Clone(f.Parts)
					for i := range f.Parts {
						if most := &f.Parts[i].Most; *most > 0 {
							*most += 1000
						}
					}
					return p.Model.Fire(ctx, f)
				}
			}},
		{"what follows begins a run of its own", "FiresBelongToTheirRun", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				got, err := p.Model.Fire(ctx, f)
				for k, row := range p.sched.fires {
					row.Run = k
				}
				return got, err
			}
		}},
		{"a row that stands is replaced", "ADueTimeThatHasARowIsLeft", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				f.Parts = slices.Clone(f.Parts)
				for i := range f.Parts {
					f.Parts[i].Over = true
				}
				return p.Model.Fire(ctx, f)
			}
		}},
		{"what was fired is fired again over it", "WhatWasNotFiredIsFiredOverIt", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				for _, part := range f.Parts {
					for _, row := range part.Fires {
						if k := (store.FireKey{Schedule: part.Schedule, At: row.At}); part.Over {
							delete(p.sched.fires, k)
						}
					}
				}
				return p.Model.Fire(ctx, f)
			}
		}},
		{"now is a due time as any other", "AFireForNowHasATimeOfItsOwn", func(p *planted) {
			p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
				f.Parts = slices.Clone(f.Parts)
				for i := range f.Parts {
					f.Parts[i].Fires = slices.Clone(f.Parts[i].Fires)
					for j := range f.Parts[i].Fires {
						if row := &f.Parts[i].Fires[j]; row.At == 0 {
							row.At = p.now().UnixMicro()
						}
					}
				}
				return p.Model.Fire(ctx, f)
			}
		}},
		{"a firing that is repeated fires now again", "AFireForNowHasATimeOfItsOwn",
			func(p *planted) {
				p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
					for _, part := range f.Parts {
						for _, row := range part.Fires {
							if row.At == 0 {
								delete(p.batches, row.Task.Batch)
							}
						}
					}
					for _, k := range p.rowsThat(func(row *store.Fire) bool {
						return row.At%1000 != 0
					}) {
						p.sched.fires[k].Task.N += 1000
					}
					return p.Model.Fire(ctx, f)
				}
			}},
		{"a row that stands for several is its first only", "FiresAreListedByTime",
			func(p *planted) {
				p.fires = func(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
					list, err := p.Model.Fires(ctx, q)
					return slices.DeleteFunc(list, func(f store.Fire) bool {
						return f.At < q.From
					}), err
				}
			}},
		{"an end closes whatever has become of the task", "AnEndClosesOnlyTheFireThatItSaw",
			func(p *planted) {
				p.fire = func(ctx context.Context, f store.Firing) (store.Fired, error) {
					f.Ends = slices.Clone(f.Ends)
					for i := range f.Ends {
						f.Ends[i].Seq = math.MaxInt32
					}
					return p.Model.Fire(ctx, f)
				}
			}},
		{"a replayed task leaves its fire closed", "AReplayedTaskOpensItsFireAgain",
			func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
					before := map[store.FireKey]store.Fire{}
					for k, f := range p.sched.fires {
						before[k] = *f
					}
					got, err := p.Model.Act(ctx, actions)
					for k, f := range before {
						*p.sched.fires[k] = f
					}
					return got, err
				}
			}},
		{"who looked before a replay closes what it opened", "AReplayedTaskOpensItsFireAgain",
			func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
					got, err := p.Model.Act(ctx, actions)
					for _, k := range p.rowsThat(func(f *store.Fire) bool {
						return f.Tries > 0 && f.Ended == 0
					}) {
						p.sched.fires[k].Seq = 0
					}
					return got, err
				}
			}},
		{"a removed task is still there for who watches", "OpenFiresTellHowTheirTasksStand",
			func(p *planted) {
				p.openFires = func(ctx context.Context, q store.OpenQuery) ([]store.OpenFire,
					error) {
					list, err := p.Model.OpenFires(ctx, q)
					for i := range list {
						list[i].Found = list[i].Found || p.fact(list[i].Task) != nil
					}
					return list, err
				}
			}},
		{"open fires are pruned", "FiresAndErasAreKeptForAWhile", func(p *planted) {
			p.prune = func(ctx context.Context, limit int) (int, error) {
				old := p.now().UnixMicro() - store.FiresKept.Microseconds()
				for _, k := range p.rowsThat(func(f *store.Fire) bool { return f.Time <= old }) {
					delete(p.sched.fires, k)
				}
				return p.Model.Prune(ctx, limit)
			}
		}},
		{"fires are kept by when they were due", "FiresAndErasAreKeptForAWhile", func(p *planted) {
			p.prune = func(ctx context.Context, limit int) (int, error) {
				old := p.now().UnixMicro() - store.FiresKept.Microseconds()
				for _, k := range p.rowsThat(func(f *store.Fire) bool {
					return f.At <= old && !f.Open()
				}) {
					delete(p.sched.fires, k)
				}
				return p.Model.Prune(ctx, limit)
			}
		}},
		{"what waits is not open", "OpenFiresAreListedBySchedule", func(p *planted) {
			p.openFires = func(ctx context.Context, q store.OpenQuery) ([]store.OpenFire, error) {
				list, err := p.Model.OpenFires(ctx, q)
				return slices.DeleteFunc(list, func(o store.OpenFire) bool {
					return o.Outcome == task.FireQueued
				}), err
			}
		}},
	}
}
