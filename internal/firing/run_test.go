package firing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/tick"
)

// half is a store of which one loop learns that it is broken, and the other one does not.
type half struct{ Store }

func (half) Due(context.Context, store.DueQuery) ([]store.Schedule, error) {
	return nil, store.ErrBroken
}

func TestRunEndsWhenOneOfItsLoopsFindsTheStoreBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := New(Config{
			Store: half{model.New(time.Now)}, Tasks: noTasks{}, Clock: tick.New(tick.Config{}),
			Node: "a",
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Run(ctx); !errors.Is(err, store.ErrBroken) || ctx.Err() != nil {
			t.Errorf("it ended with %v, and its context: %v", err, ctx.Err())
		}
	})
}
