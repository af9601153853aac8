package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// accessOut says who calls, and what that one may do.
type accessOut struct {
	Name      string    `json:"name" doc:"the token's"`
	Role      string    `json:"role" enum:"admin,operator,submitter,worker,viewer"`
	Anonymous bool      `json:"anonymous" doc:"this node has no access tokens: whoever reaches it may do everything"`
	May       []string  `json:"may" nullable:"false" doc:"the rights of the role: prepare (read queues and nodes), read, submit (and cancel single tasks), work, operate, destroy (delete queues and groups, change notifiers)"`
	Scope     *scopeOut `json:"scope,omitempty" doc:"what the token reaches; left out = everything"`
}

// scopeOut is what a token reaches, as its line in the token file says it.
type scopeOut struct {
	Queues   []string `json:"queues" nullable:"false" doc:"names, or beginnings of names with a * behind them"`
	Groups   []string `json:"groups" nullable:"false"`
	Labels   []string `json:"labels" nullable:"false" doc:"NAME:VALUE, that a worker may declare"`
	Capacity float64  `json:"capacity" doc:"that a worker may declare; 0 = any"`
}

// rightNames are the rights in words, for who shows only what its caller may do.
var rightNames = []struct {
	need right
	name string
}{
	{toPrepare, "prepare"}, {toRead, "read"}, {toSubmit, "submit"}, {toWork, "work"},
	{toOperate, "operate"}, {toDestroy, "destroy"},
}

func (a *API) registerAccess() {
	operation(a, huma.Operation{
		OperationID: "get-access", Method: http.MethodGet, Path: "/v1/access",
		Tags:    []string{"Node"},
		Summary: "Read who this token is, and what it may do",
	}, func(_ context.Context, in *struct{ Caller }) (*struct{ Body accessOut }, error) {
		return &struct{ Body accessOut }{accessOf(in.who)}, nil
	})
}

func accessOf(who principal) accessOut {
	out := accessOut{
		Name: who.Name, Role: string(who.Role), Anonymous: who.Name == anonymous.Name &&
			who.Role == anonymous.Role, May: []string{},
	}
	for _, r := range rightNames {
		if who.Role.may(r.need) {
			out.May = append(out.May, r.name)
		}
	}
	if s := who.scope; s != nil {
		out.Scope = &scopeOut{
			Queues: append([]string{}, s.queues...), Groups: append([]string{}, s.groups...),
			Labels: []string{}, Capacity: s.capacity.Float(),
		}
		for _, l := range s.labels {
			out.Scope.Labels = append(out.Scope.Labels, l.name+":"+l.value)
		}
	}
	return out
}
