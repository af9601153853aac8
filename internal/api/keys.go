package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Keys looks after what is said of group keys. Errors are those of an [Engine].
type Keys interface {
	// Keys says how much work the group keys of a queue have, and what is said of each.
	Keys(ctx context.Context, queue string) (store.KeyUses, error)
	// KeyGates says how group keys of a queue stand beside the limits of each key; one that has
	// none is left out. Times are those of now.
	KeyGates(ctx context.Context, queue string, keys []string) (
		now int64, gates []store.KeyGate, err error)
	// ChangeKey changes what is said of a group key. Locations in an InvalidError are "path.key"
	// and "body.…"; store.ErrKeyRules when the queue has as many rules that stay as it may.
	ChangeKey(context.Context, store.KeyChange) (store.Changed[store.KeyRule], error)
}

// KeyPath names a group key of a queue. It is exported for huma.
type KeyPath struct {
	QueuePath
	Key     string `path:"key" doc:"the group key, percent-encoded" example:"customer-7"`
	Instead string `query:"key" doc:"the group key, in place of the one in the path"`
}

type keysIn struct {
	QueuePath
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"at most so many"`
}

// keysOut is a list that has no second page.
type keysOut struct {
	view.QueueKeys
	Next *string `json:"next" nullable:"true" doc:"always null: the list has one page"`
}

// pauseKeyIn is the body that pauses a group key.
type pauseKeyIn struct {
	For *duration `json:"for,omitempty" doc:"so long nothing of the key begins, from now on: 1ms to 100 years; without it until the key is resumed"`
}

// weighKeyIn is the body that gives a group key a weight.
type weighKeyIn struct {
	Weight weightIn `json:"weight" minimum:"1" maximum:"1000" doc:"tasks of a turn of the key, where keys take turns; 1 or null = as of all others"`
}

type weightIn struct{ wire.Nullable[givenWeight] }

// Schema describes it in the OpenAPI document.
func (weightIn) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Nullable: true}
}

// givenWeight is a weight in a body: 0 = nothing is said any more, less = no weight at all.
type givenWeight int

func (w *givenWeight) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, (*int)(w)); err != nil {
		return errors.New("must be a whole number, or null")
	}
	switch {
	case string(b) == "null" || *w == 1:
		*w = 0
	case *w == 0:
		*w = -1
	}
	return nil
}

var (
	pauseKeyDoc = described{
		op: huma.Operation{
			OperationID: "pause-key", Method: http.MethodPost,
			Path:    "/v1/queues/{queue}/keys/{key}/pause",
			Tags:    []string{"Queues"},
			Summary: "Let nothing of a group key begin, for a while or until it is resumed",
			Description: "What runs of it goes on, and other keys too. In a queue that neither limits keys nor lets them take turns, and of " +
				"which no key has a rule yet, every node goes by it one beat later; elsewhere at once. " + percentKeys,
			Parameters: keyParameters,
		},
		status: http.StatusOK, body: pauseKeyIn{}, optional: true, example: `{"for":"30s"}`,
		answer: view.KeyRule{},
	}
	weighKeyDoc = described{
		op: huma.Operation{
			OperationID: "weigh-key", Method: http.MethodPut,
			Path:        "/v1/queues/{queue}/keys/{key}",
			Tags:        []string{"Queues"},
			Summary:     "Say how many tasks a turn of a group key has",
			Description: "It says something where keys take turns (fair), and is kept elsewhere. " + percentKeys,
			Parameters:  keyParameters,
		},
		status: http.StatusOK, body: weighKeyIn{}, example: `{"weight":5}`,
		answer: view.KeyRule{},
	}
	keyParameters = []*huma.Param{pathParameter("queue", "the queue's name"),
		pathParameter("key", "the group key, percent-encoded"),
		{
			Name: keyInQuery, In: "query", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "the group key, in place of the one in the path",
		}}
)

// percentKeys says how keys stand in paths.
const percentKeys = "The key stands in the path percent-encoded: it may hold any printable text, a slash as %2F. With ?key= it stands there, in place of the one in the path: " +
	"browsers take . and .. in a path for steps up."

// keyCalls are the calls about group keys of queues.
type keyCalls struct {
	door   *API
	queues QueueList
	keys   Keys
}

func (c *keyCalls) register() {
	tags := []string{"Queues"}
	operation(c.door, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/queues/{queue}/keys",
		Tags:    tags,
		Summary: "List the group keys of a queue that have work, or of which something is said",
		Description: "Those with the most work first, ready and running together, and whether what is ready of them may begin. So many tasks are looked at, at most; " +
			"cut says that there were more.",
	}, c.list)
	c.door.described(pauseKeyDoc, c.pause)
	operation(c.door, huma.Operation{
		OperationID: "resume-key", Method: http.MethodPost,
		Path: "/v1/queues/{queue}/keys/{key}/resume", Tags: tags,
		Summary:     "Let tasks of a group key begin again",
		Description: percentKeys,
	}, c.resume)
	c.door.described(weighKeyDoc, c.weigh)
}

func (c *keyCalls) list(ctx context.Context, in *keysIn) (*struct{ Body keysOut }, error) {
	q, err := queueNamed(ctx, c.queues, in.Queue)
	if err != nil {
		return nil, err
	}
	uses, err := c.keys.Keys(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	list := uses.Keys[:min(len(uses.Keys), in.Limit)]
	out := &struct{ Body keysOut }{}
	out.Body.Cut, out.Body.Items = uses.Cut, make([]view.QueueKey, len(list))
	byName := make(map[string]*view.QueueKey, len(list))
	for i := range list {
		k := &out.Body.Items[i]
		*k = view.QueueKey{
			KeyRule: ruleOf(&list[i].KeyRule), Ready: list[i].Ready, Running: list[i].Running,
			State: view.KeyOpen,
		}
		if k.Paused {
			k.State, k.OpensAt = view.KeyPaused, k.PausedUntil
		}
		byName[k.Key] = k
	}
	if len(list) == 0 || !admission.LimitsKeys(q) {
		return out, nil
	}
	now, gates, err := c.keys.KeyGates(ctx, in.Queue, slices.Collect(maps.Keys(byName)))
	if err != nil {
		return nil, err
	}
	for i := range gates {
		if k := byName[gates[i].Key]; k != nil {
			k.State, k.OpensAt = keyStateOf(&gates[i], now)
		}
	}
	return out, nil
}

// keyStateOf says whether a task of a key may begin, and if not, when that changes by itself.
func keyStateOf(g *store.KeyGate, now int64) (state view.KeyState, opensAt view.Time) {
	held := g.Held(now)
	if held.Until != 0 {
		opensAt = timeAt(held.Until)
	}
	switch {
	case held.Why == admission.Paused:
		return view.KeyPaused, opensAt
	case g.Stopped:
		return view.KeyStopped, view.Time{}
	case held.Why == admission.Limit:
		return view.KeyFull, view.Time{}
	case g.Owner != (task.ID{}):
		return view.KeyOrder, view.Time{}
	case held.Why == admission.TooFast:
		return view.KeyRate, opensAt
	}
	return view.KeyOpen, view.Time{}
}

// ruleOf is what is said of a key, as it is shown.
func ruleOf(r *store.KeyRule) view.KeyRule {
	v := view.KeyRule{Key: r.Key, Paused: r.Paused > 0, Weight: r.Turn()}
	if r.Paused > 0 && r.Paused != store.Never {
		v.PausedUntil = timeAt(r.Paused)
	}
	return v
}

func (c *keyCalls) pause(w *answer, r *http.Request) error {
	var in pauseKeyIn
	_, err := knownQuery(r, keyInQuery)
	if err == nil && r.ContentLength != 0 {
		err = c.door.strict(w, r, &in, keyInQuery)
	}
	if err != nil {
		return err
	}
	change := store.KeyChange{Pause: store.Forever}
	if in.For != nil {
		if change.Pause = in.For.Duration; change.Pause == 0 || change.Pause == store.Forever {
			change.Pause = -1 // which is none, and refused
		}
		w.note("for", in.For.Duration)
	}
	return c.changed(w, r, change)
}

func (c *keyCalls) weigh(w *answer, r *http.Request) error {
	var in weighKeyIn
	if err := c.door.strict(w, r, &in, keyInQuery); err != nil {
		return err
	}
	if !in.Weight.Given {
		return wrong("body.weight", "is needed: 1 to %d, or null", limits.MaxWeight)
	}
	w.note("weight", max(int(in.Weight.Value), 1))
	return c.changed(w, r, store.KeyChange{Weight: new(int(in.Weight.Value))})
}

// changed changes what is said of the key in the path of a call, and answers it.
func (c *keyCalls) changed(w *answer, r *http.Request, change store.KeyChange) error {
	change.Queue, change.Key = r.PathValue("queue"), r.PathValue("key")
	rule, err := c.change(r.Context(), change)
	if err == nil {
		c.door.writeValue(w, http.StatusOK, rule)
	}
	return err
}

func (c *keyCalls) resume(ctx context.Context, in *KeyPath) (*struct{ Body view.KeyRule }, error) {
	rule, err := c.change(ctx, store.KeyChange{Queue: in.Queue, Key: in.Key, Resume: true})
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.KeyRule }{rule}, nil
}

func (c *keyCalls) change(ctx context.Context, change store.KeyChange) (view.KeyRule, error) {
	if !limits.ValidName(change.Queue) { // no store is asked for what can't be a name
		return view.KeyRule{}, named(store.ErrNotFound, "queue", change.Queue)
	}
	changed, err := c.keys.ChangeKey(ctx, change)
	if errors.Is(err, store.ErrKeyRules) {
		return view.KeyRule{}, refuse(http.StatusConflict,
			"%d keys of queue %.140q are paused until they are resumed, or have a weight, and more may not: resume some, or take their weights back; a pause with an end is always taken",
			store.MaxKeyRules, change.Queue)
	}
	rule := ruleOf(&changed.Is)
	rule.Unheard = changed.Unheard
	return rule, named(err, "queue", change.Queue)
}
