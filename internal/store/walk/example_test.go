package walk_test

import (
	"fmt"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/store/walk"
)

// A store on a clock of its own walks, and is compared with an empty model that walks the same.
func Example() {
	clock := contract.NewClock()
	trace := walk.Trace(7, walk.Steps, model.New(clock.Now), clock)
	fmt.Println(len(trace) > walk.Steps, walk.Compare(7, model.Reference, trace))
	trace[20] += " and more"
	fmt.Println(walk.Compare(7, model.Reference, trace) == nil)
	// Output:
	// true <nil>
	// false
}
