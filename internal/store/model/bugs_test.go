package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// bug is a wrong program that the suite must find.
type bug struct {
	name  string
	claim string // one that must fail
	plant func(p *planted)
}

// bugs lists them. Their verbs are called one at a time.
func bugs() []bug {
	return slices.Concat(confBugs(), eventBugs(), groupBugs(), assignBugs(), seatBugs(),
		scheduleBugs(), fireBugs(), expiryBugs(), beginBugs(), keyBugs(), keyRuleBugs(),
		orderBugs(), waitBugs(),
		childBugs(), dependBugs(),
		editedMetaBugs(), uniqueBugs(), contextBugs(), []bug{
			{"settle accepts any token", "WrongTokensAreStaleAndSpoilNoOtherReport",
				func(p *planted) {
					p.settle = func(ctx context.Context, s store.Settlement) (store.Settled,
						error) {
						s.Reports = slices.Clone(s.Reports)
						for i, r := range s.Reports {
							if f := p.fact(r.ID); f != nil {
								if u, ok := p.running[hand{r.ID, r.Token.Seq}]; ok {
									s.Reports[i].Token.Span = u.Span
									s.Reports[i].Token.SpanToken = u.Token
								} else if sp := p.owner(f); sp != nil {
									s.Reports[i].Token.Span = sp.ID
									s.Reports[i].Token.SpanToken = sp.Token
								}
							}
						}
						return p.Model.Settle(ctx, s)
					}
				}},
			{"settle forgets that it was asked before", "OnlyOneOutcomeStandsAtASeq",
				func(p *planted) {
					p.settle = func(ctx context.Context, s store.Settlement) (store.Settled,
						error) {
						got, err := p.Model.Settle(ctx, s)
						for i, v := range got.Verdicts {
							if v == task.Repeated {
								got.Verdicts[i] = task.Stale
							}
						}
						return got, err
					}
				}},
			{"settle overwrites an outcome", "LateReportOfALostHandoutIsStale", func(p *planted) {
				p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
					for _, r := range s.Reports {
						if f := p.fact(r.ID); f != nil &&
							f.steps[r.Token.Seq].token == r.Token.SpanToken {
							delete(f.steps, r.Token.Seq)
						}
					}
					return p.Model.Settle(ctx, s)
				}
			}},
			{"settle ignores running rows", "RunningRowsTokenStaysGoodAfterARetake",
				func(p *planted) {
					p.settle = func(ctx context.Context, s store.Settlement) (store.Settled,
						error) {
						kept := maps.Clone(p.running)
						clear(p.running)
						got, err := p.Model.Settle(ctx, s)
						for h, r := range kept {
							if f := p.fact(h.id); f != nil {
								if _, settled := f.steps[h.seq]; !settled {
									p.running[h] = r
								}
							}
						}
						return got, err
					}
				}},
			{"settle deletes spent spans whatever was refused",
				"SpanWithARefusedReportIsNotDeleted",
				func(p *planted) {
					p.settle = func(ctx context.Context, s store.Settlement) (store.Settled,
						error) {
						got, err := p.Model.Settle(ctx, s)
						for _, spent := range s.Spent {
							delete(p.spans, spent.Span)
						}
						return got, err
					}
				}},
			{"settle deletes spent spans whoever has them", "SpanThatIsHeldAgainIsNotDeleted",
				func(p *planted) {
					p.settle = func(ctx context.Context, s store.Settlement) (store.Settled,
						error) {
						s.Spent = slices.Clone(s.Spent)
						for i := range s.Spent {
							if sp := p.spans[s.Spent[i].Span]; sp != nil {
								s.Spent[i].Token = sp.Token
							}
						}
						return p.Model.Settle(ctx, s)
					}
				}},
			{"settle leaves moved tasks in their old span too", "MovedTaskHasASpanOfItsOwn",
				func(p *planted) {
					p.settle = func(ctx context.Context, s store.Settlement) (store.Settled,
						error) {
						s.Reports = slices.Clone(s.Reports)
						for i := range s.Reports {
							if s.Reports[i].Move != nil {
								s.Reports[i].Step.Base = 0
							}
						}
						return p.Model.Settle(ctx, s)
					}
				}},
			{"free does not raise the lease's token",
				"FreeRaisesTheTokenSoThatNoLateRenewalRevives",
				func(p *planted) {
					p.free = func(ctx context.Context, self store.Holder, judge int64) (int,
						error) {
						kept := maps.Clone(p.leases)
						n, err := p.Model.Free(ctx, self, judge)
						p.leases = kept
						return n, err
					}
				}},
			{"free does not count deaths", "FreeEndsExpiredLeasesAndFreesTheirSpansWheneverItLooks",
				func(p *planted) {
					p.free = func(ctx context.Context, self store.Holder, judge int64) (int,
						error) {
						n, err := p.Model.Free(ctx, self, judge)
						for _, sp := range p.spans {
							sp.Deaths = 0
						}
						return n, err
					}
				}},
			{"free ends the lease of the one who frees", "FreeSparesTheLivingAndItself",
				func(p *planted) {
					p.free = func(ctx context.Context, self store.Holder, judge int64) (int,
						error) {
						return p.Model.Free(ctx, store.Holder{}, math.MaxInt64)
					}
				}},
			{"free judges whenever it arrives", "FreeThatWasLongOnItsWayJudgesNobody",
				func(p *planted) {
					p.free = func(ctx context.Context, self store.Holder, _ int64) (int, error) {
						return p.Model.Free(ctx, self, math.MaxInt64)
					}
				}},
			{"free ended judges, too", "FreeEndedEndsNoLeaseAndFreesWhatEndedOnesHeld",
				func(p *planted) {
					p.freeEnded = func(ctx context.Context) (int, error) {
						return p.Model.Free(ctx, store.Holder{}, math.MaxInt64)
					}
				}},
			{"take hides running rows", "RunningRowsAreLoadedWithTheirTasks", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for _, sp := range got.Spans {
						for i := range sp.Tasks {
							sp.Tasks[i].Running = nil
						}
					}
					return got, err
				}
			}},
			{"take does not raise the token", "OlderTokenIsRefusedAfterARetake", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for i := range got.Spans {
						p.spans[got.Spans[i].ID].Token = 1
						got.Spans[i].Token = 1
					}
					return got, err
				}
			}},
			{"take gives the rest a new row", "TakeSplitsTheLastSpanAndTheRestKeepsItsRow",
				func(p *planted) {
					p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
						before := maps.Clone(p.spans)
						got, err := p.Model.Take(ctx, r)
						for i, sp := range got.Spans {
							for id, old := range before {
								if _, known := before[sp.ID]; !known && old.Batch == sp.Batch &&
									old.Lo == sp.Hi+1 && old.Seq0 == sp.Seq0 {
									p.spans[id], p.spans[sp.ID] = p.spans[sp.ID], p.spans[id]
									p.spans[id].ID, p.spans[sp.ID].ID = id, sp.ID
									got.Spans[i].ID = id
									break
								}
							}
						}
						return got, err
					}
				}},
			{"take wakes what sleeps", "TakeIsByRankAndNeverBeforeDue", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					for _, sp := range p.spans {
						sp.Due = min(sp.Due, p.now().UnixMicro())
					}
					return p.Model.Take(ctx, r)
				}
			}},
			{"take goes on without the lease", "WithoutItsLeaseAHolderChangesNothing",
				func(p *planted) {
					p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
						l := p.leases[store.MembershipPrefix+r.Holder.Node]
						l.Until += time.Hour.Microseconds()
						p.leases[store.MembershipPrefix+r.Holder.Node] = l
						return p.Model.Take(ctx, r)
					}
				}},
			{"take ignores the pause", "PausedQueueGivesNothing", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					q := p.queues[r.Queue]
					paused := q.Paused
					q.Paused = false
					p.queues[r.Queue] = q
					got, err := p.Model.Take(ctx, r)
					q.Paused = paused
					p.queues[r.Queue] = q
					return got, err
				}
			}},
			{"give forgets the running rows", "GivenSpansKeepTheirTokensGood", func(p *planted) {
				p.give = func(ctx context.Context, g store.GiveRequest) error {
					g.Running = nil
					return p.Model.Give(ctx, g)
				}
			}},
			{"give rest keeps nothing", "TheRestOfASpanIsGivenBack", func(p *planted) {
				p.giveRest = func(ctx context.Context, r store.RestRequest) ([]bool, error) {
					given, err := p.Model.GiveRest(ctx, r)
					for i, x := range r.Rests {
						if err == nil && given[i] {
							p.spans[x.Span].Holder = store.Holder{}
						}
					}
					return given, err
				}
			}},
			{"give rest believes everybody", "TheRestOfASpanIsGivenBack", func(p *planted) {
				p.giveRest = func(ctx context.Context, r store.RestRequest) ([]bool, error) {
					for _, x := range r.Rests {
						if sp := p.spans[x.Span]; sp != nil && sp.Token == x.Token {
							r.Holder = sp.Holder
						}
					}
					return p.Model.GiveRest(ctx, r)
				}
			}},
			{"give frees the spans of others", "OnlyOnesOwnSpansAreGivenBack", func(p *planted) {
				p.give = func(ctx context.Context, g store.GiveRequest) error {
					err := p.Model.Give(ctx, g)
					for _, taking := range g.Spans {
						if sp := p.spans[taking.Span]; sp != nil {
							sp.Holder = store.Holder{}
						}
					}
					return err
				}
			}},
			{"give frees what was taken since", "LateGiveFreesNoLaterTaking", func(p *planted) {
				p.give = func(ctx context.Context, g store.GiveRequest) error {
					g.Spans = slices.Clone(g.Spans)
					for i, taking := range g.Spans {
						if sp := p.spans[taking.Span]; sp != nil {
							g.Spans[i] = sp.Taking()
						}
					}
					return p.Model.Give(ctx, g)
				}
			}},
			{"submit loses keys", "KeyReturnsTheFirstTaskOfItsQueue", func(p *planted) {
				p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
					got, err := p.Model.Submit(ctx, s)
					clear(p.keys)
					return got, err
				}
			}},
			{"submit refuses its own repetition", "RepeatedSubmissionIsAnsweredAsTheFirstTime",
				func(p *planted) {
					p.submit = func(ctx context.Context, s store.Submission) (store.Submitted,
						error) {
						if p.batches[s.Batches[0].ID] != nil {
							return store.Submitted{}, store.ErrConflict
						}
						return p.Model.Submit(ctx, s)
					}
				}},
			{"submit keeps half of a refused submission",
				"BatchIDOfAnotherOriginIsAConflictAndChangesNothing", func(p *planted) {
					p.submit = func(ctx context.Context, s store.Submission) (store.Submitted,
						error) {
						got, err := p.Model.Submit(ctx, s)
						if errors.Is(err, store.ErrConflict) && len(s.Batches) > 1 {
							s.Batches = s.Batches[:1]
							return p.Model.Submit(ctx, s)
						}
						return got, err
					}
				}},
			{"cancel stands after the running hand-out",
				"CancelOfARunningTaskMakesItsLateReportStale",
				func(p *planted) {
					p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
						error) {
						got, err := p.Model.Act(ctx, actions)
						for i, a := range got {
							if f := p.fact(a.ID); a.Changed &&
								actions[i].Kind == task.KindCancelled {
								seq, s := f.newest()
								delete(f.steps, seq)
								f.steps[seq+1] = s
							}
						}
						return got, err
					}
				}},
			{"a repeated action is a new one",
				"RepeatedActionIsAnsweredAsTheFirstTimeAndDoesNothing",
				func(p *planted) {
					p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
						error) {
						actions = slices.Clone(actions)
						for i := range actions {
							actions[i].Mark = 0
						}
						return p.Model.Act(ctx, actions)
					}
				}},
			{"removal leaves nothing", "RemovalLeavesATombstone", func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
					got, err := p.Model.Act(ctx, actions)
					for i, a := range got {
						if a.Changed && actions[i].Kind == task.KindRemoved {
							p.drop(p.Model.tasks[a.ID])
						}
					}
					return got, err
				}
			}},
			{"what goes on is replayed", "OnlyFinalTasksAreReplayed", func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
					actions = slices.Clone(actions)
					for i, a := range actions {
						if f := p.fact(a.ID); f != nil && a.Kind == task.KindReplayed {
							if _, s := f.newest(); s.Base != store.Final {
								actions[i].Kind = task.KindMoved
							}
						}
					}
					return p.Model.Act(ctx, actions)
				}
			}},
			{"a done task goes on where it ended", "ReplayOfADoneTaskBeginsAsItWasSubmitted",
				func(p *planted) {
					p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
						error) {
						actions = slices.Clone(actions)
						for i, a := range actions {
							f := p.fact(a.ID)
							if f == nil || a.Kind != task.KindReplayed || a.Replay.Whole ||
								a.Replay.Stage != nil {
								continue
							}
							if _, s := f.newest(); s.Kind == task.KindDone {
								actions[i].Replay.Stage = &s.Stage
							}
						}
						return p.Model.Act(ctx, actions)
					}
				}},
			{"a replay happens whatever state was meant", "ActionOfAStateIsDoneInNoOther",
				func(p *planted) {
					p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
						error) {
						actions = slices.Clone(actions)
						for i := range actions {
							actions[i].When = ""
						}
						return p.Model.Act(ctx, actions)
					}
				}},
			{"counts drift with every replay", "CountsAreExactAfterEveryAct", func(p *planted) {
				drift := int64(0)
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
					got, err := p.Model.Act(ctx, actions)
					for i, a := range got {
						if a.Changed && actions[i].Kind == task.KindReplayed {
							drift++
						}
					}
					return got, err
				}
				p.counts = func(ctx context.Context, queues ...string) ([]store.QueueCounts,
					error) {
					got, err := p.Model.Counts(ctx, queues...)
					if len(got) > 0 {
						got[0].Counts.Dead += drift
					}
					return got, err
				}
			}},
			{"a task that was retried counts at its first rank",
				"AheadCountsReadyTasksOfEarlierRank", func(p *planted) {
					p.ahead = func(
						ctx context.Context, id task.ID, limit int,
					) (store.Ahead, error) {
						p.Model.mu.Lock()
						kept := map[*fact]map[int32]recorded{}
						for _, f := range p.Model.tasks {
							if seq, s := f.newest(); seq >= 0 && s.Base != store.Final {
								kept[f] = f.steps
								f.steps = nil
							}
						}
						p.Model.mu.Unlock()
						got, err := p.Model.Ahead(ctx, id, limit)
						for f, steps := range kept {
							f.steps = steps
						}
						return got, err
					}
				}},
			{"what is recorded after a Prune is not in the history",
				"HistorySaysWhatHappenedInEachMinute", func(p *planted) {
					pruned := int64(0)
					p.prune = func(ctx context.Context, limit int) (int, error) {
						pruned = p.Model.now().UnixMicro()
						return p.Model.Prune(ctx, limit)
					}
					p.history = func(
						ctx context.Context, q history.Question,
					) ([]history.Period, error) {
						got, err := p.Model.History(ctx, q)
						for i := range got {
							if pruned > 0 && got[i].At > pruned {
								got[i].Counts = history.Counts{}
							}
						}
						return got, err
					}
				}},
			{"a task that is deleted leaves the history",
				"HistoryKeepsWhatIsDeletedAndReplayed", func(p *planted) {
					p.act = func(
						ctx context.Context, a []store.Action,
					) ([]store.Acted, error) {
						got, err := p.Model.Act(ctx, a)
						for i := range got {
							if got[i].Changed && a[i].Kind == task.KindRemoved {
								p.Model.history = p.Model.history[1:]
							}
						}
						return got, err
					}
				}},
			{"pages lose the task between them",
				"PagingNeitherRepeatsNorMissesUnderConcurrentInserts",
				func(p *planted) {
					p.tasks = func(ctx context.Context, f store.Filter, after task.ID,
						limit int) ([]task.View, task.ID, error) {
						page, next, err := p.Model.Tasks(ctx, f, after, limit)
						if next != (task.ID{}) {
							page = page[:len(page)-1]
						}
						return page, next, err
					}
				}},
			{"contexts are read and written anew", "TextsComeBackByteForByte", func(p *planted) {
				p.keep = func(ctx context.Context, v []byte) (store.Value, error) {
					var any any
					if len(v) > 0 && json.Unmarshal(v, &any) == nil {
						v, _ = json.Marshal(any)
					}
					return p.Model.Keep(ctx, v)
				}
			}},
			{"large contexts are cut", "TextsComeBackByteForByte", func(p *planted) {
				p.keep = func(ctx context.Context, v []byte) (store.Value, error) {
					return p.Model.Keep(ctx, bytes.Clone(v[:min(len(v), store.InlineLimit)]))
				}
			}},
			{"dead tasks are pruned with the done", "RetentionKeepsDeadTasksLonger",
				func(p *planted) {
					p.prune = func(ctx context.Context, limit int) (int, error) {
						for name, q := range p.queues {
							q.DeadKept = q.Retention
							p.queues[name] = q
						}
						return p.Model.Prune(ctx, limit)
					}
				}},
			{"tokens of removed leases come again", "TokensGrowThroughEndAndRemoval",
				func(p *planted) {
					p.end = func(ctx context.Context, name string, token int64, remove bool) error {
						err := p.Model.End(ctx, name, token, remove)
						if remove {
							p.last = token - 1
						}
						return err
					}
				}},
			{"whoever acquires judges", "ManyLeasesAreAcquiredAtOnceByWhoeverMay",
				func(p *planted) {
					p.acquireAll = func(ctx context.Context, holder string, wants []store.Lease,
						ttl time.Duration, _ int64) (store.Granted, error) {
						return p.Model.AcquireAll(ctx, holder, wants, ttl, math.MaxInt64)
					}
				}},
			{"what stands with a membership is given to nobody's member",
				"LeaseThatStandsWithAMembershipExpiresWithIt", func(p *planted) {
					p.acquireAll = func(ctx context.Context, holder string, wants []store.Lease,
						ttl time.Duration, judge int64) (store.Granted, error) {
						wants = slices.Clone(wants)
						for i := range wants {
							wants[i].Until = 0
						}
						got, err := p.Model.AcquireAll(ctx, holder, wants, ttl, judge)
						for i, l := range got.Leases {
							l.Until = store.WhileMember
							got.Leases[i], p.leases[l.Name] = l, l
						}
						return got, err
					}
				}},
			{"what stands with a membership is taken while it lasts",
				"LeaseThatStandsWithAMembershipExpiresWithIt", func(p *planted) {
					p.acquireAll = func(ctx context.Context, holder string, wants []store.Lease,
						ttl time.Duration, judge int64) (store.Granted, error) {
						for _, want := range wants {
							if l := p.leases[want.Name]; l.Until == store.WhileMember {
								l.Until = 1
								p.leases[l.Name] = l
							}
						}
						return p.Model.AcquireAll(ctx, holder, wants, ttl, judge)
					}
				}},
			{"what stood with a membership ends with it before its time",
				"WhatStoodWithAMembershipOutlivesItsEnd", func(p *planted) {
					end := func(name string, token int64) {
						member := p.leases[name]
						for _, l := range p.leases {
							if l.Until == store.WhileMember && l.Holder == member.Holder &&
								member.Token == token {
								l.Until = 0
								p.leases[l.Name] = l
							}
						}
					}
					p.end = func(ctx context.Context, name string, token int64, remove bool) error {
						end(name, token)
						return p.Model.End(ctx, name, token, remove)
					}
					p.endAll = func(ctx context.Context, leases []store.Lease, remove bool) error {
						for _, l := range leases {
							end(l.Name, l.Token)
						}
						return p.Model.EndAll(ctx, leases, remove)
					}
				}},
			{"what stood with a membership stays when it has expired",
				"WhatStandsWithAMembershipIsEndedWithIt", func(p *planted) {
					p.free = func(ctx context.Context, self store.Holder, judge int64) (int,
						error) {
						before := maps.Clone(p.leases)
						freed, err := p.Model.Free(ctx, self, judge)
						for name, l := range before {
							if l.Until == store.WhileMember {
								p.leases[name] = l
							}
						}
						return freed, err
					}
				}},
			{"whoever comes first ends many", "ManyLeasesAreEndedAtOnceByTheirTokens",
				func(p *planted) {
					p.endAll = func(ctx context.Context, leases []store.Lease, remove bool) error {
						leases = slices.Clone(leases)
						for i := range leases {
							leases[i].Token = p.leases[leases[i].Name].Token
						}
						return p.Model.EndAll(ctx, leases, remove)
					}
				}},
			{"a beat lists what was before it", "ABeatRenewsThenLists", func(p *planted) {
				p.beat = func(ctx context.Context, held []store.Lease, ttl time.Duration,
					prefixes ...string) (store.Beat, error) {
					before, err := p.Model.Beat(ctx, nil, ttl, prefixes...)
					if err != nil {
						return before, err
					}
					b, err := p.Model.Beat(ctx, held, ttl, prefixes...)
					b.Leases = before.Leases
					return b, err
				}
			}},
		})
}
