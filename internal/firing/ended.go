package firing

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// learn fills in how the tasks of fires ended, for people: nobody writes that down of fires that
// are not watched, and nobody looked yet at those that are. Fires whose tasks are not final, or not
// kept any more, stay as they are. nil ones are passed over.
func (f *Firer) learn(ctx context.Context, fires []*store.Fire) error {
	var asked []*store.Fire
	var ids []task.ID
	for _, fire := range fires {
		if fire != nil && fire.Task != (task.ID{}) && fire.Ended == 0 {
			asked = append(asked, fire)
			ids = append(ids, fire.Task)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	stood, err := f.store.Stand(ctx, ids)
	if err != nil {
		return err
	}
	for i := range stood {
		if stood[i].Final {
			asked[i].Ended = stood[i].Kind
		}
	}
	return nil
}
