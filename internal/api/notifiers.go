package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/view"
)

// Notifiers looks after who is told of events. Errors are those of an [Engine]; locations in an
// InvalidError are "body.…".
type Notifiers interface {
	// PutNotifier creates a notifier or changes it, and answers it as it stands then. Secrets that
	// are left out stay.
	PutNotifier(context.Context, store.Notifier) (store.Changed[store.Notifier], error)
	// Notifiers lists all, by name.
	Notifiers(context.Context) ([]store.Notifier, error)
	DeleteNotifier(ctx context.Context, name string) error
	// TestNotifier sends a message at once; trouble is why it could not be delivered.
	TestNotifier(ctx context.Context, name string) (trouble string, err error)
}

// notifierIn is the whole configuration of a notifier.
type notifierIn struct {
	Kind     string   `json:"kind" enum:"email,webhook,submit,run"`
	On       []string `json:"on" nullable:"false" maxItems:"100" doc:"kinds of events; node.* is all that begin with node. and * all"`
	Subjects []string `json:"subjects,omitempty" maxItems:"100" doc:"what the events must be about, in the same way; left out = anything"`

	URL      string `json:"url,omitempty" doc:"webhook: where to; never shown again. Left out = the present one"`
	Secret   string `json:"secret,omitempty" doc:"webhook: the key that messages are signed with: whsec_ and base64 (Standard Webhooks), or what DingTalk or Feishu gave; never shown. Left out = the present one while the URL stays"`
	Format   string `json:"format,omitempty" enum:"generic,slack,teams,dingtalk,feishu,wecom,telegram" doc:"webhook: who receives it; generic"`
	Template string `json:"template,omitempty" maxLength:"16384" doc:"webhook: a body of your own, a Go text/template that makes JSON from .Seq .Kind .Subject .Text .Time .Title .Fields .Object; texts are escaped for the inside of JSON strings"`
	Chat     string `json:"chat,omitempty" doc:"webhook: of format telegram, the chat's id"`

	Server   string   `json:"server,omitempty" doc:"email: HOST:PORT"`
	TLS      string   `json:"tls,omitempty" enum:"starttls,implicit,none" doc:"email: how the connection is protected; starttls, at port 465 implicit, at this machine none"`
	User     string   `json:"user,omitempty" doc:"email: who sends, if the server asks"`
	Password string   `json:"password,omitempty" doc:"email: never shown. Left out = the present one while server and user stay"`
	From     string   `json:"from,omitempty" doc:"email: the sender's address"`
	To       []string `json:"to,omitempty" maxItems:"50" doc:"email: addresses; the word owner is the owner of the queue, group or schedule that an event is about"`

	Queue   string   `json:"queue,omitempty" doc:"submit: the queue in which each event becomes one task, whose context is the event"`
	Command []string `json:"command,omitempty" maxItems:"100" doc:"run: a program and its words; the event is its input, and in its environment; runs only where the node's operator allows commands"`
}

func (in *notifierIn) row(name string) store.Notifier {
	return store.Notifier{
		Name: name, Kind: in.Kind, On: in.On, Subjects: in.Subjects, Format: in.Format,
		Template: in.Template, Chat: in.Chat,
		Server: in.Server, TLS: in.TLS, User: in.User, From: in.From, To: in.To,
		Queue: in.Queue, Command: in.Command,
		Secrets: store.Secrets{
			URL: store.Secret(in.URL), Key: store.Secret(in.Secret),
			Password: store.Secret(in.Password),
		},
	}
}

// notifierOf is the notifier as it is shown.
func notifierOf(n *store.Notifier) view.Notifier {
	return view.Notifier{
		Name: n.Name, Kind: n.Kind, On: append([]string{}, n.On...), Subjects: n.Subjects,
		URL: site(string(n.Secrets.URL)), Signed: n.Secrets.Key != "",
		Format: n.Format, Template: n.Template, Chat: n.Chat, Server: n.Server, TLS: n.TLS,
		User: n.User, From: n.From, To: n.To, Queue: n.Queue, Command: n.Command,
		Delivered: n.Served.Delivered, Failing: timeAt(n.Served.Failing),
		Trouble: n.Served.Trouble,
	}
}

// site is a URL without what may be secret of it.
func site(full string) string {
	u, err := url.Parse(full)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// NotifierPath names a notifier.
type NotifierPath struct {
	Name string `path:"name" doc:"the notifier's name" example:"ops"`
}

// testedOut says what became of a test.
type testedOut struct {
	Body struct {
		Delivered bool   `json:"delivered"`
		Trouble   string `json:"trouble" doc:"why it was not"`
	}
}

// notifierCalls are the calls about who is told of events.
type notifierCalls struct {
	door      *API
	notifiers Notifiers
}

func (c *notifierCalls) register() {
	tags := []string{"Events"}
	c.door.described(putNotifierDoc, c.put)
	operation(c.door, huma.Operation{
		OperationID: "list-notifiers", Method: http.MethodGet, Path: "/v1/notifiers", Tags: tags,
		Summary: "List notifiers by name",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-notifier", Method: http.MethodGet, Path: "/v1/notifiers/{name}",
		Tags: tags, Summary: "Read a notifier, without its secrets",
	}, c.get)
	operation(c.door, huma.Operation{
		OperationID: "delete-notifier", Method: http.MethodDelete, Path: "/v1/notifiers/{name}",
		Tags: tags, Summary: "Forget a notifier",
	}, func(ctx context.Context, in *NotifierPath) (*struct{}, error) {
		return nil, c.notifiers.DeleteNotifier(ctx, in.Name)
	})
	operation(c.door, huma.Operation{
		OperationID: "test-notifier", Method: http.MethodPost, Path: "/v1/notifiers/{name}/test",
		Tags:    tags,
		Summary: "Send a message that nothing happened for, and say what became of it",
	}, func(ctx context.Context, in *NotifierPath) (*testedOut, error) {
		trouble, err := c.notifiers.TestNotifier(ctx, in.Name)
		out := &testedOut{}
		out.Body.Delivered, out.Body.Trouble = trouble == "", trouble
		return out, err
	})
}

var putNotifierDoc = described{
	op: huma.Operation{
		OperationID: "put-notifier", Method: http.MethodPut, Path: "/v1/notifiers/{name}",
		Tags:    []string{"Events"},
		Summary: "Create a notifier or change it",
		Description: "The whole configuration but for the secrets, which stay when they are left out. A new one is told of what happens from now on; each " +
			"event at least once, in order. Private addresses are reached only where the node's configuration allows it.",
		Parameters: []*huma.Param{pathParameter("name", "the notifier's name")},
	},
	status:  http.StatusOK,
	example: `{"kind":"webhook","on":["node.*","store.*"],"format":"slack","url":"https://hooks.slack.com/services/T0/B0/x"}`,
	body:    notifierIn{}, answer: view.Notifier{},
	also: map[int]any{http.StatusCreated: view.Notifier{}},
}

func (c *notifierCalls) put(w *answer, r *http.Request) error {
	var in notifierIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	changed, err := c.notifiers.PutNotifier(r.Context(), in.row(r.PathValue("name")))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if changed.Created {
		status = http.StatusCreated
	}
	c.door.writeValue(w, status, notifierOf(&changed.Is))
	return nil
}

func (c *notifierCalls) list(ctx context.Context, in *Paging) (*listed[view.Notifier], error) {
	all, err := c.notifiers.Notifiers(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, func(n *store.Notifier) string {
		return n.Name
	}, notifierShelf, *in)
	if err != nil {
		return nil, err
	}
	items := make([]view.Notifier, len(page))
	for i := range page {
		items[i] = notifierOf(&page[i])
	}
	return &listed[view.Notifier]{list[view.Notifier]{items, next}}, nil
}

func (c *notifierCalls) get(
	ctx context.Context, in *NotifierPath,
) (*struct{ Body view.Notifier }, error) {
	all, err := c.notifiers.Notifiers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == in.Name {
			return &struct{ Body view.Notifier }{notifierOf(&all[i])}, nil
		}
	}
	return nil, fmt.Errorf("notifier %.140q: %w", in.Name, store.ErrNotFound)
}
