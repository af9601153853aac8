package model

import (
	"context"
	"maps"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// editedMetaBugs are wrong programs about what tasks carry after edits.
func editedMetaBugs() []bug {
	// after changes what stands beside the step of an edit, or of what follows it.
	after := func(
		p *planted, kind task.Kind, change func(f *fact, a *store.Action, o *store.Override),
	) {
		p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
			got, err := p.Model.Act(ctx, list)
			for i := range list {
				f := p.fact(list[i].ID)
				if f == nil || list[i].Kind != kind || !got[i].Changed {
					continue
				}
				seq, s := f.newest()
				o := f.override()
				change(f, &list[i], &o)
				s.Override = &o
				f.steps[seq] = s
			}
			return got, err
		}
	}
	return []bug{
		{"lists are filtered by the meta that was submitted",
			"EveryFilterSelectsByTheMetaThatEditsGave", func(p *planted) {
				p.tasks = func(
					ctx context.Context, f store.Filter, after task.ID, limit int,
				) (page []task.View, next task.ID, err error) {
					wanted := f.Meta
					f.Meta = ""
					all, next, err := p.Model.Tasks(ctx, f, after, 1<<20)
					for _, v := range all {
						if of := p.fact(v.ID); !of.Meta.Has(wanted) {
							continue
						}
						if len(page) == limit {
							return page, page[limit-1].ID, nil
						}
						page = append(page, v)
					}
					return page, next, err
				}
			}},
		{"the next edit forgets the meta of the one before",
			"EditOfAnotherFieldLeavesTheEditedMeta", func(p *planted) {
				after(p, task.KindEdited, func(_ *fact, a *store.Action, o *store.Override) {
					o.Meta = a.Edit.Meta
				})
			}},
		{"a replay brings the submitted meta back", "EditedMetaHoldsWhateverBecomesOfTheTask",
			func(p *planted) {
				after(p, task.KindReplayed, func(_ *fact, _ *store.Action, o *store.Override) {
					o.Meta = nil
				})
			}},
		{"an edit adds its strings to those that are there", "EditReplacesTheMetaOfItsTaskWhole",
			func(p *planted) {
				after(p, task.KindEdited, func(f *fact, a *store.Action, o *store.Override) {
					if a.Edit.Meta == nil {
						return
					}
					all := map[string]string{}
					maps.Copy(all, f.Meta.Strings())
					maps.Copy(all, a.Edit.Meta.Strings())
					o.Meta = new(store.MetaOf(all))
				})
			}},
		{"an edit that takes the meta away leaves the submitted one",
			"EditOfAnotherFieldLeavesTheEditedMeta", func(p *planted) {
				after(p, task.KindEdited, func(_ *fact, _ *store.Action, o *store.Override) {
					if o.Meta != nil && *o.Meta == "" {
						o.Meta = nil
					}
				})
			}},
		{"an edited meta is handed out by nobody who takes the task later",
			"EditedMetaHoldsWhateverBecomesOfTheTask", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for _, sp := range got.Spans {
						for i := range sp.Tasks {
							l := &sp.Tasks[i]
							l.Meta = p.fact(task.ID{Batch: sp.Batch, N: l.N}).Meta
						}
					}
					return got, err
				}
			}},
	}
}
