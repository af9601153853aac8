package storetest

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/walk"
)

// Walks by hand:
//
//	go test ./internal/store/sqlite -run /SameSeed -storetest.seed 17 -v   replays one
//	go test ./internal/store/sqlite -run /SameSeed -storetest.walks 5000   looks for longer
var (
	walkSeed  = flag.Uint64("storetest.seed", 0, "walk this seed only, and print its trace")
	manyWalks = flag.Uint64("storetest.walks", 0, "how many seeds are walked; 0 = as many as usual")
)

const (
	walks   = 200 // seeds that Run walks, a tenth of them under -short
	shorter = 10  // seeds that RunShort walks, a tenth of them under -short
	planned = 2   // seeds that RunStatements walks
)

// runTraces walks the same seeds on the model and on the store under test, and compares what they
// answered.
func runTraces(t *testing.T, model Reference, open Open, walks uint64) {
	from, to := uint64(1), walks
	switch {
	case *walkSeed != 0:
		from, to = *walkSeed, *walkSeed
	case *manyWalks != 0:
		to = *manyWalks
	case testing.Short():
		to = max(walks/10, 1)
	}
	for seed := from; seed <= to; seed++ {
		same := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			// a test of its own, so that its store is closed with it
			clock := contract.NewClock()
			got := walk.Trace(seed, walk.Steps, open(t, clock), clock)
			if *walkSeed != 0 {
				t.Log("\n" + strings.Join(got, "\n"))
			}
			if err := walk.Compare(seed, model, got); err != nil {
				t.Error(err)
			}
		})
		if !same {
			return
		}
	}
}
