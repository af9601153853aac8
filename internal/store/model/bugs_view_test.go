package model

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// viewBugs are wrong programs about what people read, and about what is deleted.
func viewBugs() []bug {
	return []bug{
		{"what is recorded after a Prune is not in the history",
			"HistorySaysWhatHappenedInEachMinute", func(p *planted) {
				pruned := int64(0)
				p.prune = func(ctx context.Context, limit int) (int, error) {
					pruned = p.Model.now().UnixMicro()
					return p.Model.Prune(ctx, limit)
				}
				p.history = func(
					ctx context.Context, q history.Question,
				) ([]history.Period, error) {
					got, err := p.Model.History(ctx, q)
					for i := range got {
						if pruned > 0 && got[i].At > pruned {
							got[i].Counts = history.Counts{}
						}
					}
					return got, err
				}
			}},
		{"a task that is deleted leaves the history",
			"HistoryKeepsWhatIsDeletedAndReplayed", func(p *planted) {
				p.act = func(
					ctx context.Context, a []store.Action,
				) ([]store.Acted, error) {
					got, err := p.Model.Act(ctx, a)
					for i := range got {
						if got[i].Changed && a[i].Kind == task.KindRemoved {
							p.Model.history = p.Model.history[1:]
						}
					}
					return got, err
				}
			}},
		{"pages lose the task between them",
			"PagingNeitherRepeatsNorMissesUnderConcurrentInserts",
			func(p *planted) {
				p.tasks = func(ctx context.Context, f store.Filter, after task.ID,
					limit int) ([]task.View, task.ID, error) {
					page, next, err := p.Model.Tasks(ctx, f, after, limit)
					if next != (task.ID{}) {
						page = page[:len(page)-1]
					}
					return page, next, err
				}
			}},
		{"contexts are read and written anew", "TextsComeBackByteForByte", func(p *planted) {
			p.keep = func(ctx context.Context, v []byte) (store.Value, error) {
				var any any
				if len(v) > 0 && json.Unmarshal(v, &any) == nil {
					v, _ = json.Marshal(any)
				}
				return p.Model.Keep(ctx, v)
			}
		}},
		{"large contexts are cut", "TextsComeBackByteForByte", func(p *planted) {
			p.keep = func(ctx context.Context, v []byte) (store.Value, error) {
				return p.Model.Keep(ctx, bytes.Clone(v[:min(len(v), store.InlineLimit)]))
			}
		}},
		{"dead tasks are pruned with the done", "RetentionKeepsDeadTasksLonger",
			func(p *planted) {
				p.prune = func(ctx context.Context, limit int) (int, error) {
					for name, q := range p.queues {
						q.DeadKept = q.Retention
						p.queues[name] = q
					}
					return p.Model.Prune(ctx, limit)
				}
			}},
	}
}
