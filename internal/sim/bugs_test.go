package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// bugs lists them.
func bugs() []bug {
	return slices.Concat(storeBugs(), otherBugs(), fenceBugs(), finishBugs(), expiryBugs(),
		gateBugs(), keyRuleBugs(), waitBugs(), childBugs(), dependBugs(), []bug{
			{name: "nodes seal tokens with secrets of their own", mode: calm,
				secret: func(node string) seal.Secret {
					return seal.Secret{Key: sha256.Sum256([]byte(node))}
				}},
			{name: "clients take silence for success", mode: safety, trusts: true},
			{name: "a process that is stopped is taken for a dead one", mode: safety, guess: true},
			{name: "hand-outs missing from beats are not lost", flaw: 4, mode: safety,
				beat: func(l *ledger, worker string, b *task.Beat) {
					b.Tasks = nil
					for _, t := range l.order {
						for _, g := range t.gave {
							if g.worker.name == worker {
								b.Tasks = append(b.Tasks, task.Held{ID: t.id, Token: g.text})
							}
						}
					}
				}},
		})
}

// storeBugs are wrong settlements.
func storeBugs() []bug {
	return []bug{
		{name: "settle accepts any token", flaw: 13, mode: safety, store: func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				return p.Model.Settle(ctx, p.retoken(ctx, s))
			}
		}},
		{name: "a stale report is answered as recorded", mode: safety, store: func(p *planted) {
			p.settle = verdicts(p, task.Stale, task.Recorded)
		}},
		{name: "a repeated report is answered as stale", mode: safety, store: func(p *planted) {
			p.settle = verdicts(p, task.Repeated, task.Stale)
		}},
		{name: "a settlement is written by half", mode: safety, store: func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				if len(s.Reports) < 2 || !p.seldom(2) {
					return p.Model.Settle(ctx, s)
				}
				half := s
				half.Reports, half.Spent = s.Reports[:1], nil
				got, err := p.Model.Settle(ctx, half)
				for range s.Reports[1:] {
					got.Verdicts = append(got.Verdicts, task.Recorded)
				}
				return got, err
			}
		}},
		{name: "a death is written without its notice", mode: safety, store: func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				s.Reports = slices.Clone(s.Reports)
				for i := range s.Reports {
					if p.seldom(4) {
						s.Reports[i].Notice = nil
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}},
		{name: "a notice is written though its report is not", mode: safety, from: 20,
			store: func(p *planted) {
				p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
					got, err := p.Model.Settle(ctx, s)
					for i, v := range got.Verdicts {
						if b := s.Reports[i].Notice; b != nil && v == task.Stale && err == nil {
							_, err = p.Model.Submit(ctx, store.Submission{
								Batches: []store.Batch{*b},
							})
						}
					}
					return got, err
				}
			}},
		{name: "a repeated death writes another notice", mode: safety, from: 10,
			store: func(p *planted) {
				p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
					got, err := p.Model.Settle(ctx, s)
					for i, v := range got.Verdicts {
						if b := s.Reports[i].Notice; b != nil && v == task.Repeated && err == nil {
							again := *b
							again.ID += 1 << 30
							_, err = p.Model.Submit(ctx, store.Submission{
								Batches: []store.Batch{again},
							})
						}
					}
					return got, err
				}
			}},
		{name: "a moved task's span comes in a second transaction", flaw: 5, mode: safety,
			store: func(p *planted) {
				p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
					s.Reports = slices.Clone(s.Reports)
					for i := range s.Reports {
						if p.seldom(2) {
							s.Reports[i].Move = nil
						}
					}
					return p.Model.Settle(ctx, s)
				}
			}},
		{name: "a moved task still belongs to its old span", flaw: 12, mode: safety,
			store: func(p *planted) {
				p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
					s.Reports = slices.Clone(s.Reports)
					for i, r := range s.Reports {
						if r.Move != nil {
							s.Reports[i].Step.Base = 0
						}
					}
					return p.Model.Settle(ctx, s)
				}
			}},
	}
}

// retoken gives every report the token that counts.
func (p *planted) retoken(ctx context.Context, s store.Settlement) store.Settlement {
	s.Reports = slices.Clone(s.Reports)
	for i, r := range s.Reports {
		if right, ok := p.right(ctx, r.ID, r.Token.Seq); ok {
			s.Reports[i].Token = right
		}
	}
	return s
}

// verdicts answers one verdict as another.
func verdicts(
	p *planted, from, to task.Status,
) func(context.Context, store.Settlement) (store.Settled, error) {
	return func(ctx context.Context, s store.Settlement) (store.Settled, error) {
		got, err := p.Model.Settle(ctx, s)
		for i, v := range got.Verdicts {
			if v == from {
				got.Verdicts[i] = to
			}
		}
		return got, err
	}
}

// otherBugs are wrong transactions of other kinds.
func otherBugs() []bug {
	return []bug{
		{name: "nobody looks for spans whose answer was lost", flaw: 1, mode: safety,
			store: func(p *planted) {
				p.held = func(context.Context, store.Holder, []int64) ([]store.HeldSpan, error) {
					return nil, nil
				}
			}},
		{name: "spans are freed once, when their lease ends", flaw: 2, mode: safety,
			store: func(p *planted) {
				p.free = func(ctx context.Context, self store.Holder, judge int64) (int, error) {
					leases, err := p.Model.LeasesOf(ctx, "node/")
					for _, l := range leases {
						if l.Until != 0 && l.Until <= p.now() {
							return p.Model.Free(ctx, self, judge)
						}
					}
					return 0, err
				}
				p.ended = func(context.Context) (int, error) { return 0, nil }
			}},
		{name: "nobody judges what is overdue", mode: forsaken, store: func(p *planted) {
			p.take = p.takeOnceHealed
			p.due = func(context.Context, store.OverdueQuery) (store.Overdue, error) {
				return store.Overdue{}, nil
			}
		}},
		{name: "nothing is given back", flaw: 7, mode: safety, store: func(p *planted) {
			p.give = func(context.Context, store.GiveRequest) error { return nil }
		}},
		{name: "a renewal is answered though the lease had ended", flaw: 14, mode: safety,
			store: func(p *planted) {
				p.beat = func(ctx context.Context, held []store.Lease, ttl time.Duration,
					prefixes ...string) (store.Beat, error) {
					got, err := p.Model.Beat(ctx, held, ttl, prefixes...)
					got.Kept = held
					return got, err
				}
			}},
		{name: "spans are given back without their running rows", flaw: 15, mode: calm,
			store: func(p *planted) {
				p.give = func(ctx context.Context, g store.GiveRequest) error {
					g.Running = nil
					return p.Model.Give(ctx, g)
				}
			}},
		{name: "an expired lease can't be renewed", flaw: 16, mode: safety,
			store: func(p *planted) {
				p.beat = func(ctx context.Context, held []store.Lease, ttl time.Duration,
					prefixes ...string) (store.Beat, error) {
					leases, err := p.Model.LeasesOf(ctx, "node/")
					if err != nil {
						return store.Beat{}, err
					}
					held = slices.DeleteFunc(slices.Clone(held), func(want store.Lease) bool {
						return slices.ContainsFunc(leases, func(l store.Lease) bool {
							return l.Name == want.Name && l.Until <= p.now()
						})
					})
					return p.Model.Beat(ctx, held, ttl, prefixes...)
				}
			}},
		{name: "a lease is given to whoever asks", mode: safety, store: func(p *planted) {
			p.acquire = func(ctx context.Context, holder string, wants []store.Lease,
				ttl time.Duration, judge int64) (store.Granted, error) {
				for _, want := range wants {
					leases, err := p.Model.LeasesOf(ctx, want.Name)
					if err != nil {
						return store.Granted{}, err
					}
					for _, l := range leases {
						if err := p.Model.End(ctx, l.Name, l.Token, false); err != nil {
							return store.Granted{}, err
						}
					}
				}
				return p.Model.AcquireAll(ctx, holder, wants, ttl, judge)
			}
		}},
		{name: "the claims of who was taken for dead are free at once", mode: safety,
			store: func(p *planted) {
				p.beat = func(ctx context.Context, held []store.Lease, ttl time.Duration,
					prefixes ...string) (store.Beat, error) {
					claims, err := p.Model.LeasesOf(ctx, "claim/")
					claims = slices.DeleteFunc(claims, func(l store.Lease) bool {
						return l.Until == store.WhileMember
					})
					if err := errors.Join(err, p.Model.EndAll(ctx, claims, false)); err != nil {
						return store.Beat{}, err
					}
					return p.Model.Beat(ctx, held, ttl, prefixes...)
				}
			}},
		{name: "deaths are not counted", flaw: 17, mode: safety, store: func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				for i := range got.Spans {
					got.Spans[i].Deaths = 0
				}
				return got, err
			}
		}},
		{name: "a key is read in another transaction than it is written", flaw: 20, mode: safety,
			store: func(p *planted) {
				p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
					s.Batches = slices.Clone(s.Batches)
					for i, b := range s.Batches {
						s.Batches[i].Tasks = slices.Clone(b.Tasks)
						for j := range b.Tasks {
							s.Batches[i].Tasks[j].Key = ""
						}
					}
					return p.Model.Submit(ctx, s)
				}
			}},
		{name: "a repeated submission is a new one", mode: safety, store: func(p *planted) {
			seen := map[int64]bool{}
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				s.Batches = slices.Clone(s.Batches)
				for i, b := range s.Batches {
					if seen[b.ID] {
						s.Batches[i].ID += 1 << 30
					}
					seen[b.ID] = true
				}
				return p.Model.Submit(ctx, s)
			}
		}},
		{name: "contexts are decoded and encoded again", mode: safety, store: func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				s.Batches = slices.Clone(s.Batches)
				for i, b := range s.Batches {
					s.Batches[i].Tasks = slices.Clone(b.Tasks)
					for j, t := range b.Tasks {
						s.Batches[i].Tasks[j].Context = recoded(t.Context)
					}
				}
				return p.Model.Submit(ctx, s)
			}
		}},
		{name: "what runs is not seen by who takes over", flaw: 9, mode: safety,
			store: func(p *planted) {
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
		{name: "what runs is not written down", flaw: 8, mode: calm, store: func(p *planted) {
			p.sync = func(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
				r.Insert = nil
				return p.Model.Sync(ctx, r)
			}
		}},
		{name: "a cancel is answered before it is written", mode: safety, store: func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				if !p.seldom(4) {
					return p.Model.Act(ctx, list)
				}
				acted := make([]store.Acted, len(list))
				for i, a := range list {
					acted[i] = store.Acted{
						ID: a.ID, Queue: queues[0], Found: true, Changed: true, Was: task.Ready,
					}
				}
				return acted, nil
			}
		}},
		{name: "a take does not raise the token", from: 1, mode: safety, store: func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				for i := range got.Spans {
					got.Spans[i].Token = 1
				}
				return got, err
			}
			p.stand = func(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
				got, err := p.Model.Stand(ctx, ids)
				for i := range got {
					got[i].Owner.Token = 1
				}
				return got, err
			}
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				return p.Model.Settle(ctx, p.retoken(ctx, s))
			}
		}},
	}
}

// fenceBugs are transactions whose right is not checked where it should be. Two flaws are not among
// them, because another rule hides them. Flaw 3: that nobody tells a holder what was settled
// elsewhere costs it time and no more: it finds the hand-out lost, is refused, and reads where the
// task stands. Flaw 10: who finds a hand-out lost without a right to it would be a node that was
// ousted, and that stops within a beat; by then the hand-outs that are old enough to be lost have
// running rows, whose tokens are good.
//
// A node that never hears of rooms (ADR 25) is not among them either: rooms are hints, so that
// tasks begin later and nothing else is wrong. The tests of shares in dispatch, and the root's of a
// burst over three nodes, find it.
func fenceBugs() []bug {
	return []bug{
		{name: "a node takes without its lease", flaw: 6, mode: safety, store: func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				if err != nil || !got.LeaseGone {
					return got, err
				}
				leases, err := p.Model.LeasesOf(ctx, "node/")
				for _, l := range leases { // in another's name
					if name := strings.TrimPrefix(l.Name, "node/"); l.Until > p.now() {
						return p.Model.Take(ctx, store.TakeRequest{
							Holder: store.Holder{Node: name, Token: l.Token}, Queue: r.Queue,
							Limit: r.Limit,
						})
					}
				}
				return got, err
			}
		}},
		{name: "a report passes beside a take-over", flaw: 11, mode: safety,
			store: func(p *planted) {
				taken := map[store.Taking]time.Time{}
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for _, sp := range got.Spans {
						taken[sp.Taking()] = time.Now()
					}
					return got, err
				}
				p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
					right := p.retoken(ctx, s)
					for i, r := range s.Reports {
						t := right.Reports[i].Token
						if at, ok := taken[store.Taking{Span: t.Span, Token: t.SpanToken}]; !ok ||
							time.Since(at) > time.Second {
							right.Reports[i] = r // its check was not long ago
						}
					}
					return p.Model.Settle(ctx, right)
				}
			}},
		{name: "a late give frees what was taken since", mode: safety, store: func(p *planted) {
			p.give = func(ctx context.Context, g store.GiveRequest) error {
				held, err := p.Model.Held(ctx, g.Holder, nil)
				if err != nil {
					return err
				}
				g.Spans = slices.Clone(g.Spans)
				for i, old := range g.Spans {
					for _, sp := range held {
						if sp.ID == old.Span {
							g.Spans[i] = sp.Taking()
						}
					}
				}
				return p.Model.Give(ctx, g)
			}
		}},
		{name: "a repeated action is a new one", mode: safety, store: func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				list = slices.Clone(list)
				for i := range list {
					list[i].Mark = 0
				}
				return p.Model.Act(ctx, list)
			}
		}},
		{name: "nodes stamp with clocks of their own", mode: calm, store: func(p *planted) {
			p.beat = func(ctx context.Context, held []store.Lease, ttl time.Duration,
				prefixes ...string) (store.Beat, error) {
				got, err := p.Model.Beat(ctx, held, ttl, prefixes...)
				if len(held) == 0 || !strings.HasPrefix(held[0].Name, "node/") {
					// what a dispatcher asks when it begins
					got.Now = time.Now().UnixMicro()
				}
				return got, err
			}
		}},
	}
}

// recoded is a context as a careless program hands it on.
func recoded(v store.Value) store.Value {
	var x any
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	if d.Decode(&x) != nil {
		return v
	}
	text, err := json.Marshal(x)
	if err != nil {
		return v
	}
	return text
}
