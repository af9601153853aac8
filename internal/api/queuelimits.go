package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// limitIn is a limit that is a number in a body that changes a queue: 0 or null takes it away.
type limitIn struct{ wire.Nullable[int] }

// Schema describes it in the OpenAPI document.
func (limitIn) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Nullable: true}
}

// rateIn is a rate in a body that changes a queue: "0", "", 0 or null takes it away.
type rateIn struct{ wire.Nullable[givenRate] }

// givenRate is a rate that may be the number 0.
type givenRate task.Rate

func (r *givenRate) UnmarshalJSON(b []byte) error {
	var text string
	if string(b) == "null" || string(b) == "0" {
		text = "0"
	} else if json.Unmarshal(b, &text) != nil {
		return errors.New(`must be text as "100/1s" or "5/1m"; 0 takes the limit away`)
	}
	return (*task.Rate)(r).UnmarshalText([]byte(text))
}

// Schema describes it in the OpenAPI document.
func (rateIn) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeString}, {Type: huma.TypeInteger, Enum: []any{0}}, {Type: "null"},
		},
		Examples: []any{"100/1s"},
	}
}

// perKeyIn are the limits of each key in a body that changes a queue: null or {} takes all of them
// away.
type perKeyIn struct{ wire.Nullable[keyLimitsIn] }

// Schema describes it in the OpenAPI document.
func (perKeyIn) Schema(r huma.Registry) *huma.Schema {
	fields := r.Schema(reflect.TypeFor[keyLimitsIn](), true, "")
	return &huma.Schema{
		OneOf:    []*huma.Schema{fields, {Type: "null"}},
		Examples: []any{map[string]any{"max_running": 1}},
	}
}

// changeLimits applies the limits that were given.
func (in *queueIn) changeLimits(q *task.Queue) {
	own := task.KeyLimits{MaxRunning: q.MaxRunning, Rate: q.Rate, Burst: q.Burst}
	changed := keyLimitsIn{MaxRunning: in.MaxRunning, Rate: in.Rate, Burst: in.Burst}
	changed.apply(&own)
	q.MaxRunning, q.Rate, q.Burst = own.MaxRunning, own.Rate, own.Burst
	if in.PerKey.Given && in.PerKey.Value == (keyLimitsIn{}) {
		q.PerKey = task.KeyLimits{}
	}
	in.PerKey.Value.apply(&q.PerKey)
	set(&q.Fair, in.Fair)
}

// apply changes what was given. Whoever takes the rate away takes its burst away, too; and what
// becomes of a key that goes in order, whoever lets several of its tasks run.
func (in *keyLimitsIn) apply(l *task.KeyLimits) {
	in.MaxRunning.Set(&l.MaxRunning)
	if in.Rate.Set((*givenRate)(&l.Rate)); l.Rate == (task.Rate{}) {
		l.Burst = 0
	}
	in.Burst.Set(&l.Burst)
	set(&l.OnDead, in.OnDead)
	if in.OnDead == nil && !l.InOrder() || l.OnDead == task.OnDeadContinue {
		l.OnDead = "" // the default
	}
}

// rateText is a rate in answers: text as task.Rate writes it.
type rateText struct{ task.Rate }

// Schema describes it in the OpenAPI document.
func (rateText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"100/1s"}}
}

// limitGate is how a queue stands beside its limits, and which its keys have.
type limitGate struct {
	store.Gate
	perKey admission.Limits
	rules  bool // something is said of single keys
}

// gatesOf are those of the queues that have limits, by queue, and the store's time at which they
// stood so. Without such a queue nobody is asked.
func gatesOf(
	ctx context.Context, views QueueViews, queues []task.Queue,
) (now int64, by map[string]*limitGate, err error) {
	var names []string
	limited := map[string]*task.Queue{}
	for i := range queues {
		if q := &queues[i]; admission.Limited(q) {
			names = append(names, q.Name)
			limited[q.Name] = q
		}
	}
	if len(names) == 0 {
		return 0, nil, nil // no name at all would ask for every queue
	}
	now, gates, err := views.Gates(ctx, names...)
	if err != nil {
		return 0, nil, fmt.Errorf("read how queues stand beside their limits: %w", err)
	}
	by = make(map[string]*limitGate, len(gates))
	for i := range gates {
		q := limited[gates[i].Queue]
		by[q.Name] = &limitGate{gates[i], admission.KeyLimitsOf(q), q.KeyRules}
	}
	return now, by, nil
}

// limitsOf says how a queue stands beside its limits, and beside what is said of single keys of it;
// without any it is nil.
func limitsOf(g *limitGate, now int64, c *task.Counts) *view.QueueLimits {
	if g == nil || g.Limits.None() && g.perKey.None() && !g.rules {
		return nil
	}
	return &view.QueueLimits{
		Running: g.Running, FullKeys: g.FullKeys, WaitingFor: waitingFor(g, now, c),
	}
}

// waitingFor is which limits hold ready tasks back.
func waitingFor(g *limitGate, now int64, c *task.Counts) (w view.WaitingFor) {
	if c.Ready > 0 {
		w.MaxRunning, w.Rate = g.Full(), g.Next(1, now) > now
		w.KeysAtLimit, w.PausedKeys = g.FullKeys, g.PausedKeys
	}
	return w
}
