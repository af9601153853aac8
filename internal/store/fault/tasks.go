package fault

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// The calls of the contract about tasks.

func (d *Door) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	return write(ctx, d, "Submit", func() (store.Submitted, error) {
		return d.Store.Submit(ctx, s)
	})
}

func (d *Door) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	return write(ctx, d, "Take", func() (store.Taken, error) { return d.Store.Take(ctx, r) })
}

func (d *Door) Ready(ctx context.Context, queues []string) ([]store.Ready, error) {
	return read(ctx, d, "Ready", func() ([]store.Ready, error) {
		return d.Store.Ready(ctx, queues)
	})
}

func (d *Door) Give(ctx context.Context, r store.GiveRequest) error {
	return tell(ctx, d, "Give", func() error { return d.Store.Give(ctx, r) })
}

func (d *Door) GiveRest(ctx context.Context, r store.RestRequest) (given []bool, err error) {
	return write(ctx, d, "GiveRest", func() ([]bool, error) { return d.Store.GiveRest(ctx, r) })
}

func (d *Door) TakeExpired(ctx context.Context, h store.Holder, limit int) (store.Taken, error) {
	return write(ctx, d, "TakeExpired", func() (store.Taken, error) {
		return d.Store.TakeExpired(ctx, h, limit)
	})
}

func (d *Door) TakeRunning(ctx context.Context, h store.Holder, limit int) (store.Taken, error) {
	return write(ctx, d, "TakeRunning", func() (store.Taken, error) {
		return d.Store.TakeRunning(ctx, h, limit)
	})
}

func (d *Door) Held(ctx context.Context, h store.Holder, known []int64) ([]store.HeldSpan, error) {
	return read(ctx, d, "Held", func() ([]store.HeldSpan, error) {
		return d.Store.Held(ctx, h, known)
	})
}

func (d *Door) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	return write(ctx, d, "Settle", func() (store.Settled, error) { return d.Store.Settle(ctx, s) })
}

func (d *Door) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	return write(ctx, d, "Sync", func() (store.Synced, error) { return d.Store.Sync(ctx, r) })
}

func (d *Door) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	return write(ctx, d, "Begin", func() (store.Begun, error) { return d.Store.Begin(ctx, r) })
}

func (d *Door) Overdue(ctx context.Context, q store.OverdueQuery) (store.Overdue, error) {
	return read(ctx, d, "Overdue", func() (store.Overdue, error) { return d.Store.Overdue(ctx, q) })
}

func (d *Door) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	return write(ctx, d, "Act", func() ([]store.Acted, error) { return d.Store.Act(ctx, actions) })
}

func (d *Door) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	return read(ctx, d, "Stand", func() ([]store.Stood, error) { return d.Store.Stand(ctx, ids) })
}

func (d *Door) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	return write(ctx, d, "Signal", func() (store.Signalled, error) {
		return d.Store.Signal(ctx, s)
	})
}

func (d *Door) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	return write(ctx, d, "Look", func() (store.Looked, error) { return d.Store.Look(ctx, r) })
}

func (d *Door) Keep(ctx context.Context, v []byte) (store.Value, error) {
	return write(ctx, d, "Keep", func() (store.Value, error) { return d.Store.Keep(ctx, v) })
}

func (d *Door) Value(ctx context.Context, v store.Value) ([]byte, error) {
	return read(ctx, d, "Value", func() ([]byte, error) { return d.Store.Value(ctx, v) })
}

func (d *Door) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	return tell(ctx, d, "AppendLog", func() error { return d.Store.AppendLog(ctx, id, lines) })
}

func (d *Door) Log(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error) {
	return read(ctx, d, "Log", func() (store.LogPage, error) {
		return d.Store.Log(ctx, id, from, limit)
	})
}
