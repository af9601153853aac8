package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/view"
)

// Hooks looks after what other programs call. Errors are those of an [Engine]; locations in an
// InvalidError are "body.…".
type Hooks interface {
	// PutHook creates a hook or changes it, and answers it as it stands then. Secrets that are left
	// out stay.
	PutHook(context.Context, store.Hook) (store.Changed[store.Hook], error)
	// Hooks lists all, by name.
	Hooks(context.Context) ([]store.Hook, error)
	DeleteHook(ctx context.Context, name string) error
	// FindHook is a hook as it stood a second ago at most. It costs the store nothing that grows
	// with the calls: anybody may ask. Nobody may change what it answers.
	FindHook(name string) (*store.Hook, error)
}

// hookIn is the whole configuration of a hook.
type hookIn struct {
	Scheme    string   `json:"scheme" enum:"github,plain,shopify,slack,standard,stripe" doc:"how what comes is signed, each with HMAC-SHA256; standard: Standard Webhooks, also with Svix's headers; plain: of the body, in hex or base64"`
	Secrets   []string `json:"secrets,omitempty" maxItems:"3" doc:"of 16 to 2,048 bytes (standard: whsec_ and base64); any of them may have signed; never shown. Left out = the present ones while the scheme stays"`
	Header    string   `json:"header,omitempty" maxLength:"64" doc:"plain: the header with the signature; X-Signature"`
	Prefix    string   `json:"prefix,omitempty" maxLength:"64" doc:"plain: what stands before the signature, as sha256="`
	Tolerance duration `json:"tolerance,omitzero" doc:"slack, standard, stripe: how far the time that is signed may be from the node's; 5m"`
	ID        string   `json:"id,omitempty" maxLength:"256" doc:"where the id of a delivery stands: a JSON pointer into the body, as /event/id, also into a form, or a header; left out = where the scheme has it, else a hash of what was signed"`
	Headers   []string `json:"headers,omitempty" maxItems:"16" doc:"headers that the task is told; left out = Content-Type and those by which the sender says what it sends"`

	Queue    string            `json:"queue,omitempty" doc:"each delivery becomes a task of this queue. Give this, or signal"`
	Stage    string            `json:"stage,omitempty" maxLength:"256"`
	Priority duration          `json:"priority,omitzero" doc:"head start in the queue"`
	GroupKey string            `json:"group_key,omitempty" maxLength:"256" doc:"a JSON pointer into the body: what stands there is the task's group key"`
	Meta     map[string]string `json:"meta,omitempty" maxProperties:"16" doc:"short strings that each task has"`

	Signal string    `json:"signal,omitempty" doc:"each delivery becomes a signal of this name, with the body as its payload"`
	Key    string    `json:"key,omitempty" maxLength:"256" doc:"of the signal: a JSON pointer into the body, as /order/id"`
	Keep   *duration `json:"keep,omitempty" doc:"how long the signal stands when nobody waits for it yet; left out = 24h"`
}

func (in *hookIn) row(name string) store.Hook {
	h := store.Hook{
		Name: name, Scheme: in.Scheme, Header: in.Header, Prefix: in.Prefix,
		Tolerance: in.Tolerance.Duration, ID: in.ID, Headers: in.Headers, Queue: in.Queue,
		Stage: in.Stage, Priority: in.Priority.Duration, GroupKey: in.GroupKey, Meta: in.Meta,
		Signal: in.Signal, Key: in.Key, Keep: keepOf(in.Keep),
	}
	for _, s := range in.Secrets {
		h.Secrets = append(h.Secrets, store.Secret(s))
	}
	return h
}

// hookOf is the hook as it is shown.
func hookOf(h *store.Hook) view.Hook {
	return view.Hook{
		Name: h.Name, Scheme: h.Scheme, Secrets: len(h.Secrets), Header: h.Header,
		Prefix: h.Prefix, Tolerance: view.Duration(h.Tolerance), ID: h.ID, Headers: h.Headers,
		Queue: h.Queue, Stage: h.Stage, Priority: view.Duration(h.Priority), GroupKey: h.GroupKey,
		Meta: h.Meta, Signal: h.Signal, Key: h.Key, Keep: view.Duration(h.Keep),
	}
}

// HookPath names a hook.
type HookPath struct {
	Name string `path:"name" doc:"the hook's name" example:"builds"`
}

var putHookDoc = described{
	op: huma.Operation{
		OperationID: "put-hook", Method: http.MethodPut, Path: "/v1/hooks/{name}",
		Tags:    []string{"Hooks"},
		Summary: "Create a hook or change it",
		Description: "The whole configuration but for the secrets, which stay when they are left out. It holds at once at the node that is asked, and within a second " +
			"at the others.",
		Parameters: []*huma.Param{pathParameter("name", "the hook's name")},
	},
	status:  http.StatusOK,
	example: `{"scheme":"github","secrets":["It's a Secret to Everybody"],"queue":"builds","group_key":"/repository/full_name"}`,
	body:    hookIn{}, answer: view.Hook{},
	also: map[int]any{http.StatusCreated: view.Hook{}},
}

// hookCalls are the calls about hooks, and those that other programs make of them.
type hookCalls struct {
	door    *API
	hot     *hotCalls
	hooks   Hooks
	signals Signals

	bodies inflow   // bytes of the bodies of calls of hooks
	forged throttle // of their signatures
}

func newHookCalls(door *API, hot *hotCalls, hooks Hooks, signals Signals) *hookCalls {
	c := &hookCalls{door: door, hot: hot, hooks: hooks, signals: signals}
	c.bodies.limit = maxHookBodies
	return c
}

func (c *hookCalls) register() {
	tags := []string{"Hooks"}
	c.door.described(putHookDoc, c.put)
	operation(c.door, huma.Operation{
		OperationID: "list-hooks", Method: http.MethodGet, Path: "/v1/hooks", Tags: tags,
		Summary: "List hooks by name",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-hook", Method: http.MethodGet, Path: "/v1/hooks/{name}", Tags: tags,
		Summary: "Read a hook, without its secrets",
	}, c.get)
	operation(c.door, huma.Operation{
		OperationID: "delete-hook", Method: http.MethodDelete, Path: "/v1/hooks/{name}", Tags: tags,
		Summary: "Forget a hook", Description: "What it has submitted stays.",
	}, func(ctx context.Context, in *HookPath) (*struct{}, error) {
		err := c.hooks.DeleteHook(ctx, in.Name)
		if err == nil {
			c.door.metrics.hooks.forget(in.Name)
		}
		return nil, err
	})
	c.door.described(callHookDoc, c.call)
}

func (c *hookCalls) put(w *answer, r *http.Request) error {
	var in hookIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	changed, err := c.hooks.PutHook(r.Context(), in.row(r.PathValue("name")))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if changed.Created {
		status = http.StatusCreated
	}
	c.door.writeValue(w, status, hookOf(&changed.Is))
	return nil
}

func (c *hookCalls) list(ctx context.Context, in *Paging) (*listed[view.Hook], error) {
	all, err := c.hooks.Hooks(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, func(h *store.Hook) string { return h.Name }, hookShelf, *in)
	if err != nil {
		return nil, err
	}
	items := make([]view.Hook, len(page))
	for i := range page {
		items[i] = hookOf(&page[i])
	}
	return &listed[view.Hook]{list[view.Hook]{items, next}}, nil
}

func (c *hookCalls) get(ctx context.Context, in *HookPath) (*struct{ Body view.Hook }, error) {
	all, err := c.hooks.Hooks(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == in.Name {
			return &struct{ Body view.Hook }{hookOf(&all[i])}, nil
		}
	}
	return nil, fmt.Errorf("hook %.140q: %w", in.Name, store.ErrNotFound)
}
