package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/view"
)

// rightNames are the rights in words, for who shows only what its caller may do.
var rightNames = []struct {
	need right
	name string
}{
	{toPrepare, "prepare"}, {toRead, "read"}, {toSubmit, "submit"}, {toWork, "work"},
	{toOperate, "operate"}, {toDestroy, "destroy"},
}

// accessCalls are the calls that tell callers who they are.
type accessCalls struct{ door *API }

func (c *accessCalls) register() {
	operation(c.door, huma.Operation{
		OperationID: "get-access", Method: http.MethodGet, Path: "/v1/access",
		Tags:    []string{"Node"},
		Summary: "Read who this token is, and what it may do",
	}, func(_ context.Context, in *struct{ Caller }) (*struct{ Body view.Access }, error) {
		return &struct{ Body view.Access }{accessOf(in.who)}, nil
	})
}

func accessOf(who principal) view.Access {
	out := view.Access{
		Name: who.Name, Role: string(who.Role), Anonymous: who.Name == anonymous.Name &&
			who.Role == anonymous.Role, May: []string{},
	}
	for _, r := range rightNames {
		if who.Role.may(r.need) {
			out.May = append(out.May, r.name)
		}
	}
	if s := who.scope; s != nil {
		out.Scope = &view.AccessScope{
			Queues: append([]string{}, s.queues...), Groups: append([]string{}, s.groups...),
			Labels: []string{}, Capacity: s.capacity.Float(),
		}
		for _, l := range s.labels {
			out.Scope.Labels = append(out.Scope.Labels, l.name+":"+l.value)
		}
	}
	return out
}
