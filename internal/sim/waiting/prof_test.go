package waiting

import "testing"

func BenchmarkPlay(b *testing.B) {
	for i := range b.N {
		play(uint64(i+1), "", nil)
	}
}
