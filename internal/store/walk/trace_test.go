package walk

import (
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
)

func TestWalksGoEverywhere(t *testing.T) {
	seeds := uint64(200) // as many as the longest of the suite's runs
	if testing.Short() {
		seeds = 1
	}
	all := ""
	for seed := uint64(1); seed <= seeds; seed++ {
		clock := contract.NewClock()
		lines := Trace(seed, Steps, model.New(clock.Now), clock)
		all += strings.Join(lines, "\n") + "\n"
		if seed == 1 {
			clock := contract.NewClock()
			if again := Trace(
				seed, Steps, model.New(clock.Now), clock,
			); !slices.Equal(again, lines) {
				t.Error("the same seed walked another way")
			}
		}
	}
	if testing.Short() {
		return // one walk does not come by everything
	}
	for _, sight := range []string{
		"recorded", "repeated", "stale", "unknown", "wrong state", "spent s", "gone true",
		"next due", "deaths 1", "token 3", " running w 1 ",
		"seq0 3", "attempt 3", "waiting", "ready", "running", "done", "dead", "cancelled", "gone ",
		"removed", `was "dead"`, `was "running"`, "force true -> ok",
		"changed true was \"dead\"", "from elsewhere", "paused true", "false moved", "settled [1",
		"line ", "free by a -> 2",
		"-> [0 1", "limit until 0, 0 left", "rate until ",
		" child of ", "add to ", "report 1 ", "children {Total:2 ", "cancelled [1",
		"look at end of ", " after ", "if ended: done", "if done: dead", " done left ",
		"paused for good", "has 2 a turn", "key_paused until", " holds its key for ", ", paused; ",
		" run, weighs ",
	} {
		if !strings.Contains(all, sight) {
			t.Errorf("no walk comes by %q", sight)
		}
	}
}
