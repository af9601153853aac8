package model_test

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
)

// A model on a clock that the test moves.
func Example() {
	ctx, clock := context.Background(), contract.NewClock()
	m := model.New(clock.Now)
	changed, err := m.ChangeQueue(ctx, "mail", store.Whole(limits.DefaultQueue("mail")))
	fmt.Println(changed.Is.Name, changed.Created, err)
	// Output: mail true <nil>
}
