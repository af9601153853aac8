package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

var errFault = errors.New("the store failed before it did anything")

// storePatience is how long a node waits for an answer of the store.
const storePatience = 3 * time.Second

// storeDoor is the store as one process of a node sees it: over the bus, with faults in twos. What
// only people read goes straight.
type storeDoor struct {
	contract.Store
	world *world
	from  *process
}

// ask makes one call to the store. touched are the tasks whose facts it may have changed.
func ask[A any](
	ctx context.Context, d *storeDoor, text string, doubles bool, touched []task.ID,
	serve func(context.Context) (A, error), told func(A) string,
) (A, error) {
	w := d.world
	came, refused := false, false // a copy fares as the first did: that nothing was done stays true
	a, err := call[A]{
		from: d.from, to: w.store, text: text, patience: storePatience, doubles: doubles,
		inline: true, told: told,
		serve: func(ctx context.Context) (a A, err error) {
			if !came {
				came, refused = true, w.bus.chance(w.bus.faults.refuse)
			}
			if refused {
				w.sometimes(errFault.Error())
				return a, errFault
			}
			a, err = serve(ctx)
			w.ledger.look(touched)
			if err == nil && w.bus.chance(w.bus.faults.deny) {
				w.sometimes("the store did it and did not say so")
				var none A
				return none, store.ErrUnknown
			}
			return a, err
		},
	}.over(ctx, w.bus)
	if errors.Is(err, errSilent) {
		err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return a, err
}

// nothing is the answer of calls that answer only an error.
type nothing struct{}

func tell(
	ctx context.Context, d *storeDoor, text string, doubles bool, touched []task.ID,
	serve func(context.Context) error,
) error {
	_, err := ask(ctx, d, text, doubles, touched, func(ctx context.Context) (nothing, error) {
		return nothing{}, serve(ctx)
	}, nil)
	return err
}

func (d *storeDoor) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	var ids []task.ID
	text := "submit"
	if s.Under != nil {
		text += fmt.Sprintf(" under %v#%d", s.Under.ID, s.Under.Token.Seq)
	}
	for _, b := range s.Batches {
		text += fmt.Sprintf(" %s/%d due %d %v", b.Queue, b.ID, b.Due, b.Spans)
		for _, t := range b.Tasks {
			ids = append(ids, task.ID{Batch: b.ID, N: t.N})
		}
	}
	return ask(ctx, d, text, true, nil, func(ctx context.Context) (store.Submitted, error) {
		d.world.ledger.submitting(s)
		got, err := d.Store.Submit(ctx, s)
		d.world.ledger.look(ids)
		d.world.ledger.added(s, ids, err)
		d.hintSubmitted(got, s.Shares)
		return got, err
	}, func(got store.Submitted) string {
		return fmt.Sprintf("%d existing%s", len(got.Existing), spanTexts(got.Spans))
	})
}

func spanTexts(list []store.Span) string {
	var text strings.Builder
	for _, sp := range list {
		spanText(&text, sp)
	}
	return text.String()
}

func spanText(text *strings.Builder, sp store.Span) {
	fmt.Fprintf(text, " %d:%d..%d@%s.%d", sp.ID, sp.Lo, sp.Hi, sp.Holder.Node, sp.Token)
}

func heldText(list []store.HeldSpan) string {
	var text strings.Builder
	for _, sp := range list {
		spanText(&text, sp.Span)
		for _, l := range sp.Tasks {
			fmt.Fprintf(&text, " %d#%d", l.N, l.Seq)
			if l.Running != nil {
				text.WriteString("!" + l.Running.Worker)
			}
		}
	}
	return text.String()
}

func (d *storeDoor) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	return ask(ctx, d, fmt.Sprintf("take %d of %s", r.Limit, r.Queue), false, nil,
		func(ctx context.Context) (store.Taken, error) {
			lives := d.world.ledger.lives(r.Holder)
			got, err := d.Store.Take(ctx, r)
			d.world.ledger.taken(r.Holder, lives, got.Spans)
			for i := range got.Spans {
				if got.Spans[i].Keys != nil {
					d.world.sometimes("what fits was taken with tasks of several keys")
				}
			}
			return got, err
		}, func(got store.Taken) string { return heldText(got.Spans) })
}

func (d *storeDoor) Ready(ctx context.Context, queues []string) ([]store.Ready, error) {
	return ask(ctx, d, fmt.Sprintf("ready %v", queues), false, nil,
		func(ctx context.Context) ([]store.Ready, error) {
			return d.Store.Ready(ctx, queues)
		},
		func(got []store.Ready) string { return fmt.Sprint(got) })
}

func (d *storeDoor) Held(
	ctx context.Context, h store.Holder, known []int64,
) ([]store.HeldSpan, error) {
	return ask(ctx, d, fmt.Sprintf("held beside %d", len(known)), false, nil,
		func(ctx context.Context) ([]store.HeldSpan, error) {
			got, err := d.Store.Held(ctx, h, known)
			d.world.ledger.strays(got)
			return got, err
		}, heldText)
}

func runningIDs(list []store.Running) (ids []task.ID) {
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

func (d *storeDoor) Give(ctx context.Context, g store.GiveRequest) error {
	ids := runningIDs(g.Running)
	return tell(ctx, d, fmt.Sprintf("give %v with %v", g.Spans, ids), true, ids,
		func(ctx context.Context) error {
			before := d.world.ledger.held(g.Holder)
			err := d.Store.Give(ctx, g)
			d.world.ledger.givenBack(g, before)
			d.hint("")
			return err
		})
}

func (d *storeDoor) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	return ask(ctx, d, fmt.Sprintf("give the rests %v", r.Rests), true, nil,
		func(ctx context.Context) ([]bool, error) {
			given, err := d.Store.GiveRest(ctx, r)
			if slices.Contains(given, true) {
				d.world.sometimes("the rest of a span was given back")
			}
			d.hint("")
			return given, err
		}, func(given []bool) string { return fmt.Sprint(given) })
}

func (d *storeDoor) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	var text strings.Builder
	text.WriteString("settle")
	ids := make([]task.ID, len(s.Reports))
	for i, r := range s.Reports {
		ids[i] = r.ID
		fmt.Fprintf(&text, " %v#%d.%d.%d=%v", r.ID, r.Token.Seq, r.Token.Span, r.Token.SpanToken,
			r.Step.Kind)
		if r.Notice != nil {
			fmt.Fprintf(&text, " with notice %d", r.Notice.ID)
		}
		for i := range r.Spawn {
			fmt.Fprintf(&text, " with children %d", r.Spawn[i].ID)
		}
	}
	fmt.Fprintf(&text, " spent %v", s.Spent)
	s.Reports = slices.Clone(s.Reports) // whoever sends them uses their memory again: see dispatch
	return ask(ctx, d, text.String(), true, nil, func(ctx context.Context) (store.Settled, error) {
		holders := d.holders(ids)
		notices := d.world.ledger.dying(s)
		d.world.ledger.spawning(s)
		got, err := d.Store.Settle(ctx, s)
		d.world.ledger.look(notices)
		d.world.ledger.look(ids)
		d.world.ledger.settled(d.from, s, got)
		d.world.ledger.holding(s, got)
		d.world.ledger.spawned(s, got)
		d.world.ledger.awaited(s, got)
		d.hintTouched(ids, holders)
		for i, r := range s.Reports {
			if r.Move != nil && err == nil && got.Verdicts[i] == task.Recorded {
				d.hint(r.Queue)
			}
			if r.Notice != nil && err == nil && got.Verdicts[i] == task.Recorded {
				d.hint(r.Notice.Queue)
			}
			for k := range r.Spawn {
				if err == nil && got.Verdicts[i] == task.Recorded {
					d.hint(r.Spawn[k].Queue)
				}
			}
		}
		return got, err
	}, func(got store.Settled) string { return fmt.Sprint(got.Verdicts) })
}

func (d *storeDoor) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	ids := runningIDs(r.Insert)
	return ask(ctx, d, fmt.Sprintf("sync %v beside %d", ids, len(r.Watch)), true, ids,
		func(ctx context.Context) (store.Synced, error) {
			return d.Store.Sync(ctx, r)
		}, func(got store.Synced) string { return fmt.Sprint(got.LeaseGone, got.Settled) })
}

func (d *storeDoor) Overdue(ctx context.Context, q store.OverdueQuery) (store.Overdue, error) {
	return ask(ctx, d, "overdue", false, nil, func(ctx context.Context) (store.Overdue, error) {
		return d.Store.Overdue(ctx, q)
	},
		func(got store.Overdue) string { return fmt.Sprint(runningIDs(got.Rows)) })
}

func (d *storeDoor) Act(ctx context.Context, list []store.Action) ([]store.Acted, error) {
	ids := make([]task.ID, len(list))
	for i, a := range list {
		ids[i] = a.ID
	}
	return ask(ctx, d, fmt.Sprintf("act %v %v", list[0].Kind, ids), false, ids,
		func(ctx context.Context) ([]store.Acted, error) {
			d.world.ledger.acting(list)
			holders := d.holders(ids)
			acted, err := d.Store.Act(ctx, list)
			d.hintTouched(ids, holders)
			d.hintWanted(acted)
			if err == nil && acted[0].Changed && (list[0].Kind == task.KindMoved ||
				list[0].Kind == task.KindReplayed || list[0].Kind == task.KindEdited) {
				d.hint(acted[0].Queue)
			}
			return acted, err
		}, func(got []store.Acted) string {
			var text strings.Builder
			for _, a := range got {
				fmt.Fprintf(&text, " %v %s", a.Changed, a.Was)
			}
			return text.String()
		})
}

func (d *storeDoor) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	return ask(ctx, d, fmt.Sprintf("stand %v", ids), false, nil,
		func(ctx context.Context) ([]store.Stood, error) {
			return d.Store.Stand(ctx, ids)
		},
		func(got []store.Stood) string {
			var text strings.Builder
			for _, s := range got {
				fmt.Fprintf(&text, " #%d %v %v", s.Seq, s.Final, s.Running != nil)
			}
			return text.String()
		})
}

func (d *storeDoor) Keep(ctx context.Context, v []byte) (store.Value, error) {
	return ask(ctx, d, fmt.Sprintf("keep %d bytes of %s", len(v), nameIn(v)), false, nil,
		func(ctx context.Context) (store.Value, error) {
			return d.Store.Keep(ctx, v)
		}, nil)
}

func (d *storeDoor) Value(ctx context.Context, v store.Value) ([]byte, error) {
	name, _ := v.Blob()
	return ask(ctx, d, "value "+name, false, nil, func(ctx context.Context) ([]byte, error) {
		return d.Store.Value(ctx, v)
	}, nil)
}

func (d *storeDoor) Queues(ctx context.Context) ([]task.Queue, error) {
	return ask(ctx, d, "queues", false, nil, d.Store.Queues, nil)
}

func (d *storeDoor) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	return ask(ctx, d, "change "+name, false, nil,
		func(ctx context.Context) (store.Changed[task.Queue], error) {
			got, err := d.Store.ChangeQueue(ctx, name, change)
			if name == gated && d.world.late() {
				d.world.ledger.began = nil // by no rate, so far
			}
			return got, err
		}, func(got store.Changed[task.Queue]) string {
			return fmt.Sprintf("paused %v", got.Is.Paused)
		})
}

func (d *storeDoor) LeasesOf(ctx context.Context, prefix string) ([]store.Lease, error) {
	return ask(ctx, d, "leases of "+prefix, false, nil,
		func(ctx context.Context) ([]store.Lease, error) {
			return d.Store.LeasesOf(ctx, prefix)
		}, nil)
}

func leaseTexts(list []store.Lease) string {
	var text strings.Builder
	for _, l := range list {
		fmt.Fprintf(&text, " %s.%d", l.Name, l.Token)
	}
	return text.String()
}

func (d *storeDoor) Acquire(
	ctx context.Context, name, holder string, ttl time.Duration, value []byte,
) (store.Lease, error) {
	return ask(ctx, d, "acquire "+name, false, nil, func(ctx context.Context) (store.Lease, error) {
		l, err := d.Store.Acquire(ctx, name, holder, ttl, value)
		d.world.ledger.granted(l)
		return l, err
	}, func(l store.Lease) string { return leaseTexts([]store.Lease{l}) })
}

func (d *storeDoor) Renew(
	ctx context.Context, list []store.Lease, ttl time.Duration,
) ([]store.Lease, error) {
	return ask(ctx, d, "renew"+leaseTexts(list), true, nil,
		func(ctx context.Context) ([]store.Lease, error) {
			return d.Store.Renew(ctx, list, ttl)
		}, leaseTexts)
}

func (d *storeDoor) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	return ask(ctx, d, fmt.Sprintf("acquire%s as %s", leaseTexts(wants), holder), true, nil,
		func(ctx context.Context) (store.Granted, error) {
			got, err := d.Store.AcquireAll(ctx, holder, wants, ttl, judge)
			for _, l := range got.Leases {
				d.world.ledger.granted(l)
			}
			return got, err
		}, func(got store.Granted) string { return leaseTexts(got.Leases) })
}

func (d *storeDoor) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return ask(ctx, d, "beat"+leaseTexts(held), true, nil,
		func(ctx context.Context) (store.Beat, error) {
			return d.Store.Beat(ctx, held, ttl, prefixes...)
		}, func(got store.Beat) string {
			return leaseTexts(got.Kept) + " of" + leaseTexts(got.Leases)
		})
}

func (d *storeDoor) EndAll(ctx context.Context, list []store.Lease, remove bool) error {
	list = slices.SortedFunc(slices.Values(list), func(a, b store.Lease) int {
		return strings.Compare(a.Name, b.Name)
	})
	return tell(ctx, d, "end"+leaseTexts(list), true, nil, func(ctx context.Context) error {
		d.world.ledger.ending(d.from, list)
		return d.Store.EndAll(ctx, list, remove)
	})
}

func (d *storeDoor) End(ctx context.Context, name string, token int64, remove bool) error {
	return tell(ctx, d, "end "+name, true, nil, func(ctx context.Context) error {
		return d.Store.End(ctx, name, token, remove)
	})
}

func (d *storeDoor) Free(ctx context.Context, self store.Holder, judge int64) (int, error) {
	return ask(ctx, d, "free", true, nil, func(ctx context.Context) (int, error) {
		freed, err := d.Store.Free(ctx, self, judge)
		if freed > 0 {
			d.hint("")
		}
		return freed, err
	}, func(n int) string { return fmt.Sprint(n) })
}

func (d *storeDoor) Prune(ctx context.Context, limit int) (int, error) {
	return ask(ctx, d, "prune", true, nil, func(ctx context.Context) (int, error) {
		return d.Store.Prune(ctx, limit)
	}, nil)
}

func (d *storeDoor) Check(ctx context.Context) error {
	return tell(ctx, d, "check", false, nil, d.Store.Check)
}
