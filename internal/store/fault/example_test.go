package fault_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

// The first write is done though it seems to fail, the second one is not, the third one works.
func Example() {
	clock := contract.NewClock()
	db := fault.New(model.New(clock.Now), fault.Script(fault.After, fault.Before))
	for range 3 {
		_, err := db.ChangeQueue(
			context.Background(), "mail", store.Whole(limits.DefaultQueue("mail")),
		)
		fmt.Println(errors.Is(err, store.ErrUnknown), errors.Is(err, fault.ErrFault))
	}
	// Output:
	// true false
	// false true
	// false false
}
