package model

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// spanBugs are wrong programs about who has which spans: free, take and give.
func spanBugs() []bug {
	return []bug{
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
	}
}
