package model

import (
	"context"
	"errors"

	"github.com/rotahq/rota/internal/store"
)

// submitBugs are wrong programs about what is submitted.
func submitBugs() []bug {
	return []bug{
		{"submit loses keys", "KeyReturnsTheFirstTaskOfItsQueue", func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				got, err := p.Model.Submit(ctx, s)
				clear(p.keys)
				return got, err
			}
		}},
		{"submit refuses its own repetition", "RepeatedSubmissionIsAnsweredAsTheFirstTime",
			func(p *planted) {
				p.submit = func(ctx context.Context, s store.Submission) (store.Submitted,
					error) {
					if p.batches[s.Batches[0].ID] != nil {
						return store.Submitted{}, store.ErrConflict
					}
					return p.Model.Submit(ctx, s)
				}
			}},
		{"submit keeps half of a refused submission",
			"BatchIDOfAnotherOriginIsAConflictAndChangesNothing", func(p *planted) {
				p.submit = func(ctx context.Context, s store.Submission) (store.Submitted,
					error) {
					got, err := p.Model.Submit(ctx, s)
					if errors.Is(err, store.ErrConflict) && len(s.Batches) > 1 {
						s.Batches = s.Batches[:1]
						return p.Model.Submit(ctx, s)
					}
					return got, err
				}
			}},
	}
}
