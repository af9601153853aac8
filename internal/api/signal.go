package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/task"
)

// Signals ends the waits of blocked tasks. Errors are those of an [Engine].
type Signals interface {
	// Signal sends a signal in the name of by. Locations in an InvalidError are "body.…".
	Signal(ctx context.Context, by string, s task.SignalRequest) (task.SignalReceipt, error)
}

// signalIn is the body of POST /v1/tasks/{id}/signal.
type signalIn struct {
	Name    string          `json:"name" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128"`
	Payload json.RawMessage `json:"payload,omitempty" doc:"any JSON value of at most 64 KiB; handed to the task byte for byte"`
	Key     string          `json:"key,omitempty" maxLength:"256" doc:"the same one twice counts once; left out = each call counts"`
}

// keyedSignalIn is the body of POST /v1/signals/{name}.
type keyedSignalIn struct {
	Key     string          `json:"key" minLength:"1" maxLength:"256" doc:"what the task names as the key of its await; the same name and key count once while they are kept"`
	Payload json.RawMessage `json:"payload,omitempty" doc:"any JSON value of at most 64 KiB; handed to the task byte for byte"`
	Keep    *duration       `json:"keep,omitempty" doc:"how long it stands when nobody waits for it yet; left out = 24h"`
}

type signalOut struct {
	Delivered bool `json:"delivered" doc:"it has ended a task's wait; else it stands until a task waits for it"`
	Repeated  bool `json:"repeated,omitempty" doc:"it had been sent before, and counts once"`
}

var (
	signalDoc = described{
		op: huma.Operation{
			OperationID: "signal-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/signal",
			Tags:    []string{"Tasks"},
			Summary: "Send a signal to a task",
			Description: "It ends the wait of a stage that waits for a signal of this name, or stands until one does, or the task is deleted. " +
				"Its hand-out tells who sent it. 409 once the task is over, and while 1,000 signals stand at it that ended no wait.",
			Parameters: []*huma.Param{pathParameter("id", "the task's id")},
		},
		status: http.StatusOK, body: signalIn{},
		example: `{"name":"approved","payload":{"until":"2026-12-01"},"key":"mail-77"}`,
		answer:  signalOut{},
	}
	keyedSignalDoc = described{
		op: huma.Operation{
			OperationID: "signal", Method: http.MethodPost, Path: "/v1/signals/{name}",
			Tags:    []string{"Tasks"},
			Summary: "Send a signal to the task that waits for its name and key",
			Description: "Whoever sends it need not know the task. It ends the wait of the one that has waited for it the longest, or stands for keep, so that it may come " +
				"before the task waits. One signal ends one wait.",
			Parameters: []*huma.Param{pathParameter("name", "the signal's name")},
		},
		status: http.StatusOK, body: keyedSignalIn{},
		example: `{"key":"order-7","payload":{"euro":12.5},"keep":"24h"}`, answer: signalOut{},
	}
)

// signalCalls are the calls that send signals to tasks.
type signalCalls struct {
	door    *API
	signals Signals
}

func (c *signalCalls) register() {
	c.door.described(signalDoc, c.toTask)
	c.door.described(keyedSignalDoc, c.toKey)
}

func (c *signalCalls) toTask(w *answer, r *http.Request) error {
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	var in signalIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	return missing(c.send(w, r, task.SignalRequest{
		Task: id, Name: in.Name, Key: in.Key, Payload: in.Payload,
	}), id)
}

func (c *signalCalls) toKey(w *answer, r *http.Request) error {
	var in keyedSignalIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	err := c.send(w, r, task.SignalRequest{
		Name: r.PathValue("name"), Key: in.Key, Payload: in.Payload, Keep: keepOf(in.Keep),
	})
	if invalid, ok := errors.AsType[*task.InvalidError](err); ok { // here the name is in the path
		for i := range invalid.Fields {
			at := &invalid.Fields[i].Location
			*at = strings.Replace(*at, "body.name", "path.name", 1)
		}
	}
	return err
}

// keepOf is how long a signal is to stand; 0 = as long as one does of which nothing is said. 0s is
// too little, and must not be taken for that.
func keepOf(said *duration) time.Duration {
	if said == nil {
		return 0
	}
	return cmp.Or(said.Duration, -1)
}

func (c *signalCalls) send(w *answer, r *http.Request, s task.SignalRequest) error {
	got, err := c.signals.Signal(r.Context(), w.who.Name, s)
	if err != nil {
		return err
	}
	if s.Task != (task.ID{}) {
		w.note("signal", s.Name)
	}
	w.note("delivered", got.Delivered)
	c.door.writeValue(w, http.StatusOK, signalOut{got.Delivered, got.Repeated})
	return nil
}

// awaits is what a blocked task waits for.
type awaits struct {
	Tasks    bool             `json:"tasks,omitempty" doc:"true: the tasks in after; nothing else is said then"`
	Signal   string           `json:"signal,omitempty" doc:"the name of a signal; left out = children, or tasks"`
	Key      string           `json:"key,omitempty" doc:"left out = the signal is sent to the task itself"`
	Children task.ChildrenEnd `json:"children,omitempty" enum:"all,first_dead" doc:"all: until each of its children has ended; first_dead: besides, until one is dead or expired"`
	Until    instant          `json:"until,omitzero" doc:"when the wait is over without it; left out = never"`
	Else     string           `json:"else,omitempty" doc:"the stage that begins then; left out = the one that waits"`
}

func awaitsOf(a *task.Awaits) *awaits {
	if a == nil {
		return nil
	}
	if a.Others {
		return &awaits{Tasks: true}
	}
	w := &awaits{Signal: a.Signal, Key: a.Key, Until: instant(a.Until), Else: a.Else}
	if a.Signal == "" {
		if w.Children = task.AllChildren; a.First {
			w.Children = task.FirstDead
		}
	}
	return w
}
