package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// eventBugs are wrong programs about events and who is told of them.
func eventBugs() []bug {
	return []bug{
		{"append does not look at keys", "AnEventStandsOnceHoweverOftenItIsReported",
			func(p *planted) {
				p.report = func(ctx context.Context, events []store.Event) (int, error) {
					before := len(p.Model.events.list)
					fresh := slices.Clone(events)
					for i := range fresh {
						fresh[i].Key = fmt.Sprint("fresh ", before+i)
					}
					n, err := p.Model.Append(ctx, fresh)
					for i, e := range events[:n] {
						p.Model.events.list[before+i].Key = e.Key
					}
					return n, err
				}
			}},
		{"what was reported before takes a seq", "AnEventStandsOnceHoweverOftenItIsReported",
			func(p *planted) {
				p.report = func(ctx context.Context, events []store.Event) (int, error) {
					n, err := p.Model.Append(ctx, events)
					p.Model.events.last += int64(len(events) - n)
					return n, err
				}
			}},
		{"next is the last that was selected", "EventsAreSelectedByKindAndTime", func(p *planted) {
			p.events = func(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
				page, err := p.Model.Events(ctx, q)
				page.Next = q.After
				if n := len(page.Events); n > 0 {
					page.Next = page.Events[n-1].Seq
				}
				return page, err
			}
		}},
		{"kinds are matched by their beginning", "EventsAreSelectedByKindAndTime",
			func(p *planted) {
				p.events = func(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
					if len(q.Kinds) > 0 {
						q.Kinds = []string{q.Kinds[0][:1] + "*", "s*"}
					}
					return p.Model.Events(ctx, q)
				}
			}},
		{"a new notifier begins at the first event", "ANewNotifierBeginsAtTheNewestEvent",
			func(p *planted) {
				p.changeTold = func(ctx context.Context, name string,
					change store.Change[store.Notifier]) (store.Changed[store.Notifier], error) {
					changed, err := p.Model.ChangeNotifier(ctx, name, change)
					if changed.Created {
						p.forge(name, 0)
					}
					return changed, err
				}
			}},
		{"a changed notifier begins anew", "AChangedNotifierGoesOnWhereItWas", func(p *planted) {
			p.changeTold = func(ctx context.Context, name string,
				change store.Change[store.Notifier]) (store.Changed[store.Notifier], error) {
				changed, err := p.Model.ChangeNotifier(ctx, name, change)
				if err == nil {
					p.forge(name, p.Model.events.last)
				}
				return changed, err
			}
		}},
		{"advance goes forward from anywhere", "OfTwoThatServeFromTheSamePlaceOneMovesTheNotifier",
			func(p *planted) {
				p.advance = func(ctx context.Context, name string, from int64,
					to store.Progress) (bool,
					error) {
					if at := p.Model.told[name].Served.Delivered; at < to.Delivered {
						from = at
					}
					return p.Model.Advance(ctx, name, from, to)
				}
			}},
	}
}

// forge changes how far a notifier was served.
func (p *planted) forge(name string, delivered int64) {
	n := p.Model.told[name]
	n.Served.Delivered = delivered
	p.Model.told[name] = n
}
