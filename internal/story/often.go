package story

import "testing"

// Often is how often something is tried: often, or as often as is enough for the race detector
// (go test -short), which looks for what no seed and no place of a fault decides. The whole runs
// without it.
func Often(often, enough int) int {
	if testing.Short() {
		return enough
	}
	return often
}

// Whole leaves a test to the whole run. In a short one, which looks for races, it would show
// nothing new: no goroutines of this process meet in it that do not meet in others.
func Whole(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("short runs look for races: others show those that this one has")
	}
}
