package model

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// confBugs are wrong programs about configurations.
func confBugs() []bug {
	return []bug{
		{"a change begins with the defaults", "AChangeOfAQueueIsGivenWhatStands", func(p *planted) {
			p.changeQ = func(ctx context.Context, name string,
				change store.Change[task.Queue]) (store.Changed[task.Queue], error) {
				return p.Model.ChangeQueue(ctx, name, func(q *task.Queue, stands bool) error {
					*q = limits.DefaultQueue(name)
					return change(q, stands)
				})
			}
		}},
		{"a refused change is made all the same", "ARefusedChangeOfAGroupChangesNothing",
			func(p *planted) {
				p.changeGroup = func(ctx context.Context, name string,
					change store.Change[task.Group]) (store.Changed[task.Group], error) {
					var refusal error
					changed, err := p.Model.ChangeGroup(ctx, name,
						func(g *task.Group, stands bool) error {
							refusal = change(g, stands)
							return nil
						})
					if err == nil && refusal != nil {
						return store.Changed[task.Group]{}, refusal
					}
					return changed, err
				}
			}},
		{"names are the same whatever their case", "NamesAreKeptAndListedByTheirBytes",
			func(p *planted) {
				p.changeQ = func(ctx context.Context, name string,
					change store.Change[task.Queue]) (store.Changed[task.Queue], error) {
					return p.Model.ChangeQueue(ctx, strings.ToLower(name), change)
				}
			}},
		{"what a change leaves out is emptied", "AChangeOfANotifierIsGivenWhatStands",
			func(p *planted) {
				p.changeTold = func(ctx context.Context, name string,
					change store.Change[store.Notifier]) (store.Changed[store.Notifier], error) {
					return p.Model.ChangeNotifier(ctx, name,
						func(n *store.Notifier, stands bool) error {
							n.Secrets = store.Secrets{}
							return change(n, stands)
						})
				}
			}},
		{"the secrets of a hook that changes are lost", "AChangeOfAHookIsGivenWhatStands",
			func(p *planted) {
				p.changeHook = func(ctx context.Context, name string,
					change store.Change[store.Hook]) (store.Changed[store.Hook], error) {
					return p.Model.ChangeHook(ctx, name, func(h *store.Hook, stands bool) error {
						h.Secrets = nil
						return change(h, stands)
					})
				}
			}},
		{"of a hook's secrets the newest is kept", "HooksComeBackWithTheirSecrets",
			func(p *planted) {
				p.changeHook = func(ctx context.Context, name string,
					change store.Change[store.Hook]) (store.Changed[store.Hook], error) {
					return p.Model.ChangeHook(ctx, name, func(h *store.Hook, stands bool) error {
						err := change(h, stands)
						h.Secrets = h.Secrets[:min(len(h.Secrets), 1)]
						return err
					})
				}
			}},
		{"a deleted hook stands on", "HooksComeBackWithTheirSecrets", func(p *planted) {
			p.deleteHook = func(context.Context, string) error { return nil }
		}},
	}
}

// hasty reads a configuration, changes it, and writes it whole.
type hasty struct{ *Model }

func (h hasty) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	return hastily(ctx, name, change, h.Model.ChangeQueue)
}

func (h hasty) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	return hastily(ctx, name, change, h.Model.ChangeGroup)
}

func (h hasty) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (store.Changed[store.Notifier], error) {
	return hastily(ctx, name, change, h.Model.ChangeNotifier)
}

func (h hasty) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (store.Changed[store.Hook], error) {
	return hastily(ctx, name, change, h.Model.ChangeHook)
}

// hastily lets others have many turns between its reading and its writing.
func hastily[T any](
	ctx context.Context, name string, change store.Change[T],
	do func(context.Context, string, store.Change[T]) (store.Changed[T], error),
) (store.Changed[T], error) {
	var read T
	_, err := do(ctx, name, func(is *T, stands bool) error {
		if err := change(is, stands); err != nil {
			return err
		}
		read = *is
		return errHasty
	})
	if !errors.Is(err, errHasty) {
		return store.Changed[T]{}, err
	}
	for range 100 {
		runtime.Gosched()
	}
	return do(ctx, name, store.Whole(read))
}

var errHasty = errors.New("nothing is written yet")

func TestSuiteFindsChangesThatAreLost(t *testing.T) {
	for _, noun := range []string{"Queue", "Group", "Notifier", "Hook"} {
		open := func(clock *contract.Clock) contract.Store { return hasty{New(clock.Now)} }
		if name := "OfManyChangesOfA" + noun + "AtOnceNoneIsLost"; !breaks(name, open) {
			t.Errorf("the claim %s does not find them", name)
		}
		if name := "AChangeOfA" + noun + "IsGivenWhatStands"; breaks(name, open) {
			t.Errorf("the claim %s fails, with one change at a time", name)
		}
	}
}

// No walk has nodes that claim what they look after, so the claim alone must find it.
func TestANodesNameThatEndsAtItsFirstAtIsFound(t *testing.T) {
	if !breaks("AHolderIsANodeAndItsStartBehindTheLastAt", func(clock *contract.Clock) contract.Store {
		p := plant(New(clock.Now))
		p.acquireAll = func(ctx context.Context, holder string, wants []store.Lease,
			ttl time.Duration, judge int64) (store.Granted, error) {
			node, start, _ := strings.Cut(holder, "@")
			if strings.Contains(start, "@") {
				holder = node + start[strings.LastIndexByte(start, '@'):]
			}
			return p.Model.AcquireAll(ctx, holder, wants, ttl, judge)
		}
		return p
	}) {
		t.Error("the claim does not find it")
	}
}
