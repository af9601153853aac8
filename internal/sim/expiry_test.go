package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// In one world of three, tasks are to be begun in time: some of those that are submitted have a
// limit, edits set and end others, nodes let expire what is in nobody's hands, and somebody waits
// for what becomes of them. Other worlds go on as if there were no limits.

// limits tells whether the world has such tasks.
func (w *world) limits() bool { return w.seed%3 == 0 }

// within makes up until when a task is to be begun: mostly about as long as it takes to be begun.
func (s *person) within() time.Duration {
	switch s.limits.IntN(4) {
	case 0:
		return 50*time.Millisecond + time.Duration(s.limits.Int64N(int64(time.Second)))
	case 1, 2:
		return time.Second + time.Duration(s.limits.Int64N(int64(4*time.Second)))
	}
	return 5*time.Second + time.Duration(s.limits.Int64N(int64(20*time.Second)))
}

// limit gives some tasks a limit.
func (s *person) limit(w *wish) {
	if s.world.limits() && !w.poison && s.limits.IntN(2) == 0 {
		w.sub.StartWithin = s.within()
	}
}

// limitEdit lets some edits set another limit, or end one.
func (s *person) limitEdit(e *task.Edit) {
	if !s.world.limits() || s.limits.IntN(2) == 0 {
		return
	}
	if e.StartWithin = new(time.Duration); s.limits.IntN(3) > 0 {
		*e.StartWithin = s.within()
	}
}

// listen waits for tasks to become final, as often as it is told.
func (s *person) listen(times int) {
	for try := range times {
		var t *tale
		if !s.rest(6*time.Second, func() {
			var open []*tale
			for _, x := range s.world.ledger.order {
				if x.stored && x.final == "" && x.limit.at > 0 {
					open = append(open, x)
				}
			}
			if len(open) > 0 {
				t = open[s.luck.IntN(len(open))]
			}
		}) {
			return
		}
		if t == nil {
			continue
		}
		asked, wait := time.Now(), 20*time.Second
		through(s.door.from.ctx, s.door, try, call[task.View]{
			text: fmt.Sprintf("wait for %v", t.id), patience: wait + 4*time.Second,
			told: func(v task.View) string { return string(v.State) },
			came: func(v task.View) { s.world.ledger.heard(t, asked, v) },
		}, func(ctx context.Context, n *peer) (task.View, error) {
			return n.Task(ctx, t.id, wait)
		})
	}
}

func (d *storeDoor) TakeExpired(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	return ask(ctx, d, fmt.Sprintf("take %d that expired", limit), false, nil,
		func(ctx context.Context) (store.Taken, error) {
			lives := d.world.ledger.lives(h)
			got, err := d.Store.TakeExpired(ctx, h, limit)
			d.world.ledger.taken(h, lives, got.Spans)
			if len(got.Spans) > 0 {
				d.world.sometimes("what nobody held was taken to expire")
			}
			return got, err
		}, func(got store.Taken) string { return heldText(got.Spans) })
}

// expiryBugs are wrong ways to say that nobody began.
func expiryBugs() []bug {
	return []bug{
		{name: "the holder lets a task expire that it has handed out", mode: safety, from: 15,
			store: func(p *planted) {
				p.sync = func(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
					var s store.Settlement
					for _, run := range r.Insert {
						t := p.world.ledger.tales[run.ID]
						if t.limit.ran || t.limit.at == 0 || t.limit.at > p.now() ||
							finals[t.wish.sub.Queue] != "" {
							continue
						}
						s.Reports = append(s.Reports, store.Report{
							ID: run.ID, Queue: t.wish.sub.Queue,
							Token: task.Token{Span: run.Span, SpanToken: run.Token, Seq: run.Seq},
							Step: store.Step{
								Kind: task.KindExpired, Stage: t.wish.sub.Stage, ContextSeq: -1,
								Base: store.Final, Finished: p.now(),
							},
						})
					}
					if len(s.Reports) > 0 {
						got, err := p.Model.Settle(ctx, s)
						p.world.ledger.settled(nil, s, got)
						if err != nil {
							return store.Synced{}, err
						}
					}
					return p.Model.Sync(ctx, r)
				}
			}},
		{name: "expiry does not see what runs on a dead node", mode: calm,
			store: func(p *planted) {
				p.sync = func(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
					var seen []store.Running
					for _, run := range r.Insert {
						if p.world.ledger.tales[run.ID].limit.at == 0 {
							seen = append(seen, run)
						}
					}
					r.Insert = seen
					return p.Model.Sync(ctx, r)
				}
			}},
		{name: "who takes over believes that limits are shorter", mode: safety,
			store: func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for _, sp := range got.Spans {
						for i := range sp.Tasks {
							if l := &sp.Tasks[i]; l.Expires > 0 {
								l.Expires -= (3 * time.Second).Microseconds()
							}
						}
					}
					return got, err
				}
			}},
		{name: "a task may expire and be done", mode: safety, store: func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				for i := range s.Reports {
					if step := &s.Reports[i].Step; step.Kind == task.KindExpired &&
						s.Reports[i].Notice == nil {
						step.Base = 0
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}},
		{name: "nobody looks for what expires in nobody's hands", mode: safety, from: 12,
			store: func(p *planted) {
				p.take = p.takeOnceHealed
				p.expired = func(context.Context, store.Holder, int) (store.Taken, error) {
					return store.Taken{Now: p.now()}, nil
				}
			}},
	}
}
