package walk

import (
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// handed tells what the stages of a task were handed, page by page. The last one is what it has.
func (w *walk) handed(id task.ID, v *task.View) {
	var told []string
	var last task.StageContext
	for q := (store.ContextsQuery{ID: id, Limit: 2, Bytes: 20}); ; {
		page, next, err := w.Contexts(w.ctx, q)
		if err != nil {
			w.breach("I8: contexts of %s: %v", w.id(id), err)
			return
		}
		for _, c := range page {
			last = c
			told = append(told, fmt.Sprintf("%d %s %q by %q at %d %.20q", c.Seq, c.Outcome, c.Stage,
				c.By, c.Time.UnixMicro()-w.start, c.Context))
		}
		if next == 0 {
			break
		}
		q.From = next
	}
	if string(last.Context) != string(v.Context) || last.Stage != v.Stage {
		w.breach("I8: the last context of %s is that of %q, %.40q, and it has in %q %.40q", w.id(id),
			last.Stage, last.Context, v.Stage, v.Context)
	}
	w.note("handed to %s -> %v", w.id(id), told)
}
