package model

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// contextBugs are wrong programs about what stages were handed.
func contextBugs() []bug {
	// telling changes each page.
	telling := func(
		change func(*planted, store.ContextsQuery, []task.StageContext) []task.StageContext,
	) func(*planted) {
		return func(p *planted) {
			p.contexts = func(
				ctx context.Context, q store.ContextsQuery,
			) ([]task.StageContext, int32, error) {
				page, next, err := p.Model.Contexts(ctx, q)
				return change(p, q, page), next, err
			}
		}
	}
	without := func(left func(task.StageContext) bool) func(*planted) {
		return telling(func(
			_ *planted, _ store.ContextsQuery, page []task.StageContext,
		) []task.StageContext {
			return slices.DeleteFunc(page, left)
		})
	}
	const claim = "ContextsTellWhatEachStageWasHanded"
	return []bug{
		{"a stage that got no new context was handed none", claim, telling(func(
			p *planted, q store.ContextsQuery, page []task.StageContext,
		) []task.StageContext {
			f := p.Model.tasks[q.ID]
			for i := range page {
				if c := &page[i]; c.Seq >= 0 {
					c.Context = []byte(f.steps[c.Seq].Context)
				}
			}
			return page
		})},
		{"edits write no contexts", claim, without(func(c task.StageContext) bool {
			return c.Outcome == task.KindEdited
		})},
		{"a replay goes on with what there was", claim, without(func(c task.StageContext) bool {
			return c.Outcome == task.KindReplayed
		})},
		{"a context is of the stage that wrote it", claim, telling(func(
			p *planted, q store.ContextsQuery, page []task.StageContext,
		) []task.StageContext {
			for i := range page {
				if s, ok := p.Model.tasks[q.ID].steps[page[i].Seq]; ok && s.Ran != "" {
					page[i].Stage = s.Ran
				}
			}
			return page
		})},
		{"a page ends one too late", claim, func(p *planted) {
			p.contexts = func(
				ctx context.Context, q store.ContextsQuery,
			) ([]task.StageContext, int32, error) {
				q.Limit++
				return p.Model.Contexts(ctx, q)
			}
		}},
	}
}
