package model

import (
	"context"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// settleBugs are wrong programs about what is settled.
func settleBugs() []bug {
	return []bug{
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
	}
}
