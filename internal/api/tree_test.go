package api

import (
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
