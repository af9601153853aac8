package model

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// leaseBugs are wrong programs about leases.
func leaseBugs() []bug {
	return []bug{
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
	}
}
