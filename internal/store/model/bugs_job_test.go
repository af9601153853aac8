package model

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// groupBugs are wrong programs about groups, their jobs, and who reads on.
func groupBugs() []bug {
	return []bug{
		{"jobs change without their claim", "AJobChangeWithoutItsClaimChangesNothing",
			func(p *planted) {
				p.changeJobs = func(ctx context.Context, c store.JobChange) (store.JobsChanged,
					error) {
					c.Claim = store.Lease{}
					return p.Model.ChangeJobs(ctx, c)
				}
			}},
		{"anybody changes any list", "AListThatComesFromElsewhereIsNotChangedByHand",
			func(p *planted) {
				p.changeJobs = func(ctx context.Context, c store.JobChange) (store.JobsChanged,
					error) {
					if g := p.group(c.Group); g != nil {
						kind := g.Source.Kind
						g.Source.Kind = task.SourceAPI
						defer func() { g.Source.Kind = kind }()
					}
					return p.Model.ChangeJobs(ctx, c)
				}
			}},
		{"a job that is put as it is gets a new version", "JobsAreAddedReplacedAndRemoved",
			func(p *planted) {
				p.changeJobs = func(ctx context.Context, c store.JobChange) (store.JobsChanged,
					error) {
					got, err := p.Model.ChangeJobs(ctx, c)
					for _, j := range c.Put {
						if err == nil {
							p.group(c.Group).jobs[j.Name].Version = got.Version
						}
					}
					return got, err
				}
			}},
		{"what is left out of the whole list stays", "JobsAreAddedReplacedAndRemoved",
			func(p *planted) {
				p.changeJobs = func(ctx context.Context, c store.JobChange) (store.JobsChanged,
					error) {
					c.Whole = false
					return p.Model.ChangeJobs(ctx, c)
				}
			}},
		{"specs are read and written anew", "SpecsComeBackByteForByte", func(p *planted) {
			p.changeJobs = func(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
				c.Put = slices.Clone(c.Put)
				for i := range c.Put {
					var text bytes.Buffer
					if json.Compact(&text, c.Put[i].Spec) == nil {
						c.Put[i].Spec = bytes.ToUpper(text.Bytes())
					}
				}
				return p.Model.ChangeJobs(ctx, c)
			}
		}},
		{"a deleted group leaves its load behind", "AGroupWithJobsIsDeletedByForce",
			func(p *planted) {
				p.deleteGroup = func(ctx context.Context, name string, force bool) error {
					used := map[string]task.Units{}
					for _, s := range p.jobs.seats {
						used[s.Worker] = s.Used
					}
					err := p.Model.DeleteGroup(ctx, name, force)
					for _, s := range p.jobs.seats {
						s.Used = used[s.Worker]
					}
					return err
				}
			}},
		{"groups are deleted whatever they have", "AGroupWithJobsIsDeletedByForce",
			func(p *planted) {
				p.deleteGroup = func(ctx context.Context, name string, _ bool) error {
					return p.Model.DeleteGroup(ctx, name, true)
				}
			}},
		{"a group that comes again begins anew", "AGroupThatComesAgainIsAnother", func(p *planted) {
			p.changeGroup = func(ctx context.Context, name string,
				change store.Change[task.Group]) (store.Changed[task.Group], error) {
				p.jobs.past = 0
				return p.Model.ChangeGroup(ctx, name, change)
			}
		}},
		{"tombstones are not told", "WhoReadsOnMissesNothing", func(p *planted) {
			p.changes = func(ctx context.Context, group string, after int64) (store.Changes,
				error) {
				c, err := p.Model.Changes(ctx, group, after)
				c.Jobs = slices.DeleteFunc(c.Jobs, func(j store.GroupJob) bool { return j.Gone })
				c.Assignments = slices.DeleteFunc(c.Assignments, func(a store.Assignment) bool {
					return a.State == store.Ended
				})
				return c, err
			}
		}},
		{"who reads everything hears of no failure that is over",
			"EverythingTellsWhatFailedNotLongAgo", func(p *planted) {
				p.changes = func(ctx context.Context, group string, after int64) (store.Changes,
					error) {
					c, err := p.Model.Changes(ctx, group, after)
					c.Assignments = slices.DeleteFunc(c.Assignments, func(a store.Assignment) bool {
						return c.Whole && a.State == store.Ended
					})
					return c, err
				}
			}},
		{"who read less than was purged reads on", "WhoReadLessThanWasPurgedReadsEverything",
			func(p *planted) {
				p.changes = func(ctx context.Context, group string, after int64) (store.Changes,
					error) {
					if g := p.group(group); g != nil {
						g.horizon = 0
					}
					return p.Model.Changes(ctx, group, after)
				}
			}},
		{"readers are told a version that they have not read", "WhoReadsOnMissesNothing",
			func(p *planted) {
				p.changes = func(ctx context.Context, group string, after int64) (store.Changes,
					error) {
					c, err := p.Model.Changes(ctx, group, after)
					c.Jobs = slices.DeleteFunc(c.Jobs, func(j store.GroupJob) bool {
						return !c.Whole && j.Version == c.Version && len(c.Jobs) > 1
					})
					return c, err
				}
			}},
	}
}

// assignBugs are wrong programs about who runs what.
func assignBugs() []bug {
	return []bug{
		{"assign does not look at the claim", "AnAssignWithoutItsClaimChangesNothing",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					a.Claim.Token = p.leases[a.Claim.Name].Token
					return p.Model.Assign(ctx, a)
				}
			}},
		{"assign does not look at the time", "AnAssignWithoutItsClaimChangesNothing",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					kept := maps.Clone(p.leases)
					if l, ok := p.leases[a.Claim.Name]; ok {
						l.Until = 1 << 62
						p.leases[l.Name] = l
					}
					got, err := p.Model.Assign(ctx, a)
					p.leases = kept
					return got, err
				}
			}},
		{"assign does not look at capacity", "AWorkerIsNeverAboveItsCapacityWhoeverAssigns",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					kept := map[string]task.Units{}
					for name, s := range p.jobs.seats {
						kept[name], s.Capacity = s.Capacity, 1<<40
					}
					got, err := p.Model.Assign(ctx, a)
					for name, s := range p.jobs.seats {
						s.Capacity = kept[name]
					}
					return got, err
				}
			}},
		{"assign does not look for the worker", "StartsThatCanNotBeAreRefusedOneByOne",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					kept := map[string]store.SeatState{}
					for name, s := range p.jobs.seats {
						kept[name], s.State = s.State, store.SeatTaken
					}
					got, err := p.Model.Assign(ctx, a)
					for name, s := range p.jobs.seats {
						s.State = kept[name]
					}
					return got, err
				}
			}},
		{"a replica may be started twice", "StartsThatCanNotBeAreRefusedOneByOne",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					hidden := map[*store.Assignment]int{}
					if g := p.group(a.Group); g != nil && len(a.Move) == 0 {
						for _, row := range g.places {
							hidden[row], row.Replica = row.Replica, row.Replica+100
						}
					}
					got, err := p.Model.Assign(ctx, a)
					for row, replica := range hidden {
						if row.Replica >= 100 {
							row.Replica = replica
						}
					}
					return got, err
				}
			}},
		{"tokens are numbered from one for each job", "ALaterAssignmentHasAGreaterToken",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					got, err := p.Model.Assign(ctx, a)
					for _, s := range a.Start {
						if row := p.place(a.Group, s.Job, s.Worker); row != nil && err == nil &&
							row.Version == got.Version {
							row.Token = 1
						}
					}
					return got, err
				}
			}},
		{"ending frees capacity", "EndingTakesCapacityUntilItIsOver", func(p *planted) {
			p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
				got, err := p.Model.Assign(ctx, a)
				for _, e := range a.End {
					if row := p.place(a.Group, e.Job, e.Worker); row != nil &&
						row.State == task.JobEnding {
						p.jobs.seats[e.Worker].Used -= row.Load
						row.Load = 0
					}
				}
				return got, err
			}
		}},
		{"drop does not look at the token", "EndAndDropNeedTheToken", func(p *planted) {
			p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
				a.Drop = slices.Clone(a.Drop)
				for i, d := range a.Drop {
					if row := p.place(a.Group, d.Job, d.Worker); row != nil {
						a.Drop[i].Token = row.Token
					}
				}
				return p.Model.Assign(ctx, a)
			}
		}},
		{"what runs is dropped", "WhatAWorkerThatCameBackRunsIsNotDropped", func(p *planted) {
			p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
				for _, d := range a.Drop {
					if s := p.jobs.seats[d.Worker]; s != nil && s.State == store.SeatTaken {
						s.State = store.SeatSilent
						defer func() { s.State = store.SeatTaken }()
					}
				}
				return p.Model.Assign(ctx, a)
			}
		}},
		{"a move ends where it came from at once", "AMovingReplicaGoesOnUntilItsSuccessorRuns",
			func(p *planted) {
				p.assign = func(ctx context.Context, a store.Assign) (store.Assigned, error) {
					got, err := p.Model.Assign(ctx, a)
					for _, m := range a.Move {
						if row := p.place(a.Group, m.Job, m.From); row != nil &&
							row.State == task.JobMoving {
							row.State = task.JobEnding
						}
					}
					return got, err
				}
			}},
		{"who moves goes on moving when the successor falls away",
			"AMovingReplicaStaysWhenItsSuccessorFallsAway", func(p *planted) {
				p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
					var moving []*store.Assignment
					for _, g := range p.jobs.groups {
						for _, row := range g.places {
							if row.State == task.JobMoving {
								moving = append(moving, row)
							}
						}
					}
					got, err := p.Model.Observe(ctx, o)
					for _, row := range moving {
						if row.State == task.JobRunning {
							row.State = task.JobMoving
						}
					}
					return got, err
				}
			}},
		{"what a worker said of an earlier assignment counts", "WhatIsSaidInVainChangesNothing",
			func(p *planted) {
				p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
					o.States = slices.Clone(o.States)
					for i, seen := range o.States {
						if row := p.place(seen.Group, seen.Job, seen.Worker); row != nil {
							o.States[i].Token = row.Token
						}
					}
					return p.Model.Observe(ctx, o)
				}
			}},
		{"what begins anew keeps its token", "WhatBeginsAnewHasANewToken", func(p *planted) {
			p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
				o.States = slices.Clone(o.States)
				for i := range o.States {
					o.States[i].Anew = false
				}
				return p.Model.Observe(ctx, o)
			}
		}},
		{"a quiet one stays quiet", "AQuietOneFailsUntilItGivesASign", func(p *planted) {
			p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
				quiet := map[*store.Assignment]bool{}
				for i := range o.States {
					seen := &o.States[i]
					if row := p.place(seen.Group, seen.Job, seen.Worker); row != nil {
						quiet[row] = row.Quiet
					}
				}
				got, err := p.Model.Observe(ctx, o)
				for row, was := range quiet {
					row.Quiet = row.Quiet || was
				}
				return got, err
			}
		}},
		{"any node may say of any worker's", "WhatIsSaidInVainChangesNothing", func(p *planted) {
			p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
				kept := map[string]store.Holder{}
				for name, s := range p.jobs.seats {
					kept[name], s.Node = s.Node, o.Holder
				}
				got, err := p.Model.Observe(ctx, o)
				for name, s := range p.jobs.seats {
					s.Node = kept[name]
				}
				return got, err
			}
		}},
		{"what is said again is written again", "WhatIsSaidInVainChangesNothing", func(p *planted) {
			p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
				got, err := p.Model.Observe(ctx, o)
				for _, seen := range o.States {
					if row := p.place(
						seen.Group, seen.Job, seen.Worker,
					); row != nil && row.State == seen.State && got.Now-row.Since >= 0 {
						p.group(seen.Group).Version++
						row.Version = p.group(seen.Group).Version
					}
				}
				return got, err
			}
		}},
		{"failures are forgotten when it runs again", "AFailureIsRememberedBeyondTheEnd",
			func(p *planted) {
				p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
					got, err := p.Model.Observe(ctx, o)
					for _, seen := range o.States {
						if row := p.place(
							seen.Group, seen.Job, seen.Worker,
						); row != nil && row.State == task.JobRunning {
							row.Failed = 0
						}
					}
					return got, err
				}
			}},
		{"what was ended is adopted again", "RunsThatAreNotWantedAreNotAdopted", func(p *planted) {
			p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
				for _, g := range p.jobs.groups {
					for _, row := range g.places {
						if row.State == store.Ended {
							row.Token = 0
						}
					}
				}
				return p.Model.Observe(ctx, o)
			}
		}},
		{"versions do not grow past adopted tokens", "ARunThatNoRowKnowsIsAdopted",
			func(p *planted) {
				p.observed = func(ctx context.Context, o store.Observed) (store.Observing, error) {
					before := map[string]int64{}
					for name, g := range p.jobs.groups {
						before[name] = g.Version
					}
					got, err := p.Model.Observe(ctx, o)
					for name, g := range p.jobs.groups {
						if g.Version > before[name]+1 {
							for _, row := range g.places {
								if row.Version == g.Version {
									row.Version = before[name] + 1
								}
							}
							g.Version = before[name] + 1
						}
					}
					return got, err
				}
			}},
	}
}

// seatBugs are wrong programs about workers' seats.
func seatBugs() []bug {
	return []bug{
		{"earlier incarnations are forgotten", "AnEarlierIncarnationIsSuperseded",
			func(p *planted) {
				p.seat = func(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
					for _, s := range p.jobs.seats {
						s.Before = nil
					}
					return p.Model.Seat(ctx, r)
				}
			}},
		{"nobody knows who else may answer a worker", "ASeatSaysUntilWhenItsNodeBeforeMayAnswer",
			func(p *planted) {
				p.seat = func(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
					r.Overlap = 0
					return p.Model.Seat(ctx, r)
				}
			}},
		{"a beat as before is a change", "SeatsAreListedWhenAnythingChanged", func(p *planted) {
			p.seat = func(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
				p.jobs.seated++
				return p.Model.Seat(ctx, r)
			}
		}},
		{"changes of seats have no version", "SeatsAreListedWhenAnythingChanged", func(p *planted) {
			p.seat = func(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
				before := p.jobs.seated
				got, err := p.Model.Seat(ctx, r)
				if before > 0 {
					p.jobs.seated, got.Version = before, before
				}
				return got, err
			}
		}},
		{"any node may send any worker away", "OnlyWhereAWorkerSitsItIsSentAway", func(p *planted) {
			p.seat = func(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
				for _, w := range r.Away {
					if s := p.jobs.seats[w.Worker]; s != nil {
						s.Node = r.Holder
					}
				}
				return p.Model.Seat(ctx, r)
			}
		}},
		{"a dead node's workers sit on", "SeatsOfADeadNodeAreOrphans", func(p *planted) {
			p.free = func(ctx context.Context, self store.Holder, judge int64) (int, error) {
				kept := maps.Clone(p.jobs.seats)
				p.jobs.seats = nil
				n, err := p.Model.Free(ctx, self, judge)
				p.jobs.seats = kept
				return n, err
			}
		}},
		{"a beat makes a seat that has nothing in use", "SeatsAreListedWhenAnythingChanged",
			func(p *planted) {
				p.seat = func(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
					got, err := p.Model.Seat(ctx, r)
					for _, w := range r.Taken {
						if s := p.jobs.seats[w.Worker]; s != nil && err == nil {
							s.Used = 0
						}
					}
					return got, err
				}
			}},
		{"a forgotten worker keeps its assignments", "AForgottenWorkersAssignmentsEnd",
			func(p *planted) {
				p.deleteSeat = func(_ context.Context, worker string) error {
					if p.jobs.seats[worker] != nil {
						delete(p.jobs.seats, worker)
						p.jobs.seated++
					}
					return nil
				}
			}},
		{"seats of the gone are kept for ever", "SeatsOfTheGoneArePruned", func(p *planted) {
			p.prune = func(ctx context.Context, limit int) (int, error) {
				kept := maps.Clone(p.jobs.seats)
				clear(p.jobs.seats)
				n, err := p.Model.Prune(ctx, limit)
				p.jobs.seats = kept
				return n, err
			}
		}},
	}
}
