package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

// A tree shows nobody tasks of queues that are not in the scope of his token, nor what hangs below
// them: it counts them.
func TestATreeShowsWhatIsInTheScope(t *testing.T) {
	node := func(queue string, below ...task.Tree) task.Tree {
		return task.Tree{Task: task.View{Queue: queue}, Below: below}
	}
	tree := node("mail", node("vault", node("mail")), node("mail", node("vault")), node("vault"))
	tree.LeftOut = 4
	if got := treeOf(&tree, nil); len(got.Below) != 3 || got.LeftOut != 4 ||
		len(got.Below[0].Below) != 1 {
		t.Errorf("without a scope: %+v", got)
	}
	got := treeOf(&tree, &scope{queues: patterns{"mail"}})
	if len(got.Below) != 1 || got.LeftOut != 6 || len(got.Below[0].Below) != 0 ||
		got.Below[0].LeftOut != 1 {
		t.Errorf("in the scope: %+v", got)
	}
}

// wood has one tree.
type wood struct {
	*fake
	tree task.Tree
}

func (w wood) Tree(context.Context, task.ID, int) (task.Tree, error) { return w.tree, nil }

// What is of other queues a token with a scope does not cancel by way of a task above it.
func TestATreeIsCancelledOnlyWhereAllOfItIsInTheScope(t *testing.T) {
	node := func(queue string, state task.State, below ...task.Tree) task.Tree {
		return task.Tree{Task: task.View{ID: idOf(9), Queue: queue, State: state}, Below: below}
	}
	root := func(below ...task.Tree) task.Tree { return node("mail", task.Ready, below...) }
	large := root(node("mail", task.Done, node("mail", task.Ready)))
	large.Below[0].LeftOut = 1
	alien := "task " + idOf(9).String() + ", which hangs below"
	for name, c := range map[string]struct {
		tree task.Tree
		want string // "" = it may
	}{
		"alone":               {root(), ""},
		"of the same queue":   {root(node("mail", task.Running, node("mail", task.Ready))), ""},
		"alien":               {root(node("mail", task.Ready), node("vault", task.Ready)), alien},
		"alien, further down": {root(node("mail", task.Done, node("vault", task.Running))), alien},
		"alien and over":      {root(node("vault", task.Done, node("mail", task.Ready))), ""},
		"below what is over":  {root(node("vault", task.Dead, node("vault", task.Blocked))), alien},
		"not all is known":    {large, "more than 999 tasks"},
	} {
		f := newFake()
		a := newAPI(t, f, func(conf *Config) {
			conf.Tokens, conf.Engine = scoped(t), wood{f, c.tree}
		})
		ready, done := "/v1/tasks/"+idOf(1).String(), "/v1/tasks/"+idOf(2).String()
		for _, call := range []string{
			"POST " + ready + "/cancel", "POST " + done + "/retry", "DELETE " + ready,
		} {
			for query, want := range map[string]string{"": "", "?tree=true": c.want} {
				before := len(f.changed())
				response, text := ask(t, a, call+query, "", "Authorization: Bearer operator-in")
				if refused := response.StatusCode == http.StatusForbidden; refused !=
					(want != "") || !refused && response.StatusCode >= 300 ||
					!strings.Contains(text, want) {
					t.Errorf("%s: %s%s: %d %s", name, call, query, response.StatusCode, text)
				} else if done := len(f.changed()) > before; done == refused {
					t.Errorf("%s: %s%s: refused %v, done %v", name, call, query, refused, done)
				}
			}
			if response, text := ask(t, a, call+"?tree=true", "",
				"Authorization: Bearer admin-token"); response.StatusCode >= 300 {
				t.Errorf("%s: %s without a scope: %d %s", name, call, response.StatusCode, text)
			}
		}
	}
}
