//go:build unix

package postgres

import (
	"fmt"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// BenchmarkUnique is the life of tasks with unique keys beside that of others: plain as most are,
// begun as those of a queue with limits, unique with a key of its own each, one hand-out of all.
// Of kept and replaced the price is that of the submission: they meet tasks that have their keys.
func BenchmarkUnique(b *testing.B) {
	for _, tasks := range []int{1, 100, 500} {
		for _, kind := range []string{"plain", "begun", "unique", "kept", "replaced"} {
			b.Run(fmt.Sprintf("tasks=%d/%s", tasks, kind), func(b *testing.B) {
				c := durable(b)
				how := map[string]task.OnExisting{"replaced": task.OnExistingReplace}[kind]
				met := kind == "kept" || kind == "replaced"
				if met {
					c.submit(wanting(c.batch(tasks, tasks, false), "met", how))
				}
				c.measure(b, 1, tasks, func() {
					batch := c.batch(tasks, tasks, !met)
					switch {
					case met:
						c.submit(wanting(batch, "met", how))
					case kind == "unique":
						batch = wanting(batch, fmt.Sprint(batch.ID), how)
						fallthrough
					default:
						spans := c.submit(batch)
						if kind != "plain" {
							c.begin(&batch, spans)
						}
						c.settle(spans)
					}
				})
			})
		}
	}
}

// wanting lets each task of a batch want a unique key.
func wanting(b store.Batch, key string, how task.OnExisting) store.Batch {
	for i := range b.Tasks {
		b.Tasks[i].Unique = &store.Unique{
			Key: fmt.Sprint(key, " ", i), OnExisting: how, Order: int32(i),
		}
	}
	return b
}
