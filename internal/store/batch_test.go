package store_test

import (
	"math"
	"testing"

	"github.com/rotahq/rota/internal/store"
)

func TestBatchIDsKeepTheirTimeAndOrder(t *testing.T) {
	const now = 1_790_000_000_123_456
	a, b := store.BatchID(now, math.MaxUint32), store.BatchID(now+1, 0)
	if a >= b || store.BatchTime(a) != now || store.BatchTime(b) != now+1 {
		t.Errorf("BatchID gives %d with time %d, then %d with time %d", a, store.BatchTime(a), b,
			store.BatchTime(b))
	}
	if store.BatchID(now, 1) == store.BatchID(now, 2) {
		t.Error("two nodes make the same batch id in one microsecond")
	}
}
