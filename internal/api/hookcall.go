package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// hookOut is what a caller of a hook is answered: of a task its id, of a signal whether it was
// delivered.
type hookOut struct {
	ID        *task.ID `json:"id,omitempty" doc:"of a task: its id"`
	Existing  *bool    `json:"existing,omitempty" doc:"of a task: the same delivery came before, and this is the task that it became"`
	Delivered *bool    `json:"delivered,omitempty" doc:"of a signal: it has ended a task's wait; else it stands until a task waits for it"`
	Repeated  bool     `json:"repeated,omitempty" doc:"of a signal: it had been sent before, and counts once"`
	Challenge string   `json:"challenge,omitempty" doc:"what Slack wants to be told when it is given the URL"`
}

var callHookDoc = described{
	op: huma.Operation{
		OperationID: "call-hook", Method: http.MethodPost, Path: "/v1/hooks/{name}",
		Tags:    []string{"Hooks"},
		Summary: "Deliver something to a hook",
		Description: "For other programs: without an access token, signed as the hook says, with a body of any kind of at most 1 MiB. It is stored before it is answered, " +
			"and the same delivery makes one task, however often it comes. A signature that is missing, wrong or too old, and a hook that there is not, are all answered " +
			"401 in the same words. 422 when the body lacks what the hook needs of it. Forms of Slack are answered 200 without a body: it would show what stands there to its user.",
		Parameters: []*huma.Param{pathParameter("name", "the hook's name")},
		Security:   []map[string][]string{{}},
	},
	status: http.StatusOK, body: anyBody{}, bodyType: "*/*", example: `{"ref":"refs/heads/main"}`,
	optional: true, answer: hookOut{},
}

// anyBody is whatever another program sends.
type anyBody struct{}

// Schema describes it in the OpenAPI document.
func (anyBody) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// What becomes of calls of hooks, as the metrics say it.
const (
	hookRefused  = "refused"  // it was not signed; of which hook is not said
	hookInvalid  = "invalid"  // it lacks what the hook needs
	hookFailed   = "failed"   // it was not stored, or perhaps
	hookCreated  = "created"  // a task
	hookExisting = "existing" // the task was there
	hookSignal   = "signal"   // a signal was sent
	hookRepeated = "repeated" // the signal had been sent
	hookAnswered = "answered" // a challenge
)

func (c *hookCalls) call(w *answer, r *http.Request) error {
	in := c.bodies.begin(func() {
		http.NewResponseController(w).SetReadDeadline(time.Now())
	})
	defer c.bodies.end(in)
	body, err := readBody(r, hook.MaxBody, firstHookRead, func(n int64) bool {
		return c.bodies.more(r.Context(), in, n)
	})
	if whole := c.bodies.read(in); err == nil && !whole {
		err = busy(tooManyBodies)
	}
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	h, err := c.hooks.FindHook(name)
	if errors.Is(err, store.ErrNotFound) {
		h, err = hook.Decoy(), nil
	}
	if err != nil {
		return err
	}
	c.door.metrics.hooks.prune(time.Now(), c.hooks.FindHook)
	request := hook.Request{Header: r.Header.Get, Body: body}
	if h.Name != "" { // a name that nobody configured goes into no log
		w.who = principal{Name: "hook:" + h.Name, Role: roleSubmitter}
	}
	if !hook.Verify(h, request, time.Now()) {
		c.door.metrics.hooks.count("", hookRefused)
		return c.unsigned(r)
	}
	delivery := hook.Delivered(h, request)
	out, outcome, err := c.deliver(w, r, h, delivery)
	c.door.metrics.hooks.count(h.Name, outcome)
	if err != nil {
		return err
	}
	if delivery.Silent() {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	c.door.writeValue(w, http.StatusOK, out)
	return nil
}

// unsigned refuses a call of a hook, in the same words whatever was wrong with it.
func (c *hookCalls) unsigned(r *http.Request) error {
	if !c.forged.mayErr(r.RemoteAddr) {
		return refuse(http.StatusTooManyRequests,
			"too many calls of hooks from this address were not signed; one that is signed is let in all the same")
	}
	p := refuse(http.StatusUnauthorized,
		"there is no such hook, or this call is not signed with its secret, or was signed too long ago")
	p.header = http.Header{"Www-Authenticate": {`HMAC-SHA256 realm="rota hooks"`}}
	return p
}

// deliver does what a delivery is to do.
func (c *hookCalls) deliver(
	w *answer, r *http.Request, h *store.Hook, d *hook.Delivery,
) (out hookOut, outcome string, err error) {
	if out.Challenge = d.Challenge(); out.Challenge != "" {
		return out, hookAnswered, nil
	}
	if h.Signal != "" {
		outcome, err = c.deliverSignal(r, d, &out)
	} else {
		outcome, err = c.deliverTask(w, r, d, &out)
	}
	if err == nil {
		return out, outcome, nil
	}
	if invalid, ok := errors.AsType[*task.InvalidError](err); ok {
		return out, hookInvalid, atBody(h, invalid)
	}
	return out, hookFailed, err
}

func (c *hookCalls) deliverTask(
	w *answer, r *http.Request, d *hook.Delivery, out *hookOut,
) (outcome string, err error) {
	s, _, err := d.Task()
	if err != nil {
		return "", err
	}
	receipts, err := c.hot.submitTasks(r.Context(), &w.call, nil, []task.Submission{s})
	if err != nil {
		return "", err
	}
	out.ID, out.Existing = &receipts[0].ID, &receipts[0].Existing
	if receipts[0].Existing {
		return hookExisting, nil
	}
	return hookCreated, nil
}

func (c *hookCalls) deliverSignal(
	r *http.Request, d *hook.Delivery, out *hookOut,
) (outcome string, err error) {
	s, err := d.Signal()
	if err != nil {
		return "", err
	}
	got, err := c.signals.Signal(r.Context(), d.By(), s)
	if err != nil {
		return "", err
	}
	out.Delivered, out.Repeated = &got.Delivered, got.Repeated
	if got.Repeated {
		return hookRepeated, nil
	}
	return hookSignal, nil
}

// atBody says where in what came a value stands that the engine refuses.
func atBody(h *store.Hook, e *task.InvalidError) error {
	at := strings.NewReplacer("body.tasks[0].group_key", "body"+h.GroupKey,
		"body.tasks[0].context", "body", "body.key", "body"+h.Key, "body.payload", "body")
	moved := &task.InvalidError{TooLarge: e.TooLarge}
	for _, f := range e.Fields {
		f.Location = at.Replace(f.Location)
		moved.Fields = append(moved.Fields, f)
	}
	return moved
}
