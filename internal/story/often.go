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
