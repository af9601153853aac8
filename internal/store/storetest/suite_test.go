package storetest_test

import (
	"testing"

	"github.com/rotahq/rota/internal/store/storetest"
)

func TestModelKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) storetest.Store {
		m := storetest.NewModel(clock.Now)
		t.Cleanup(func() { m.Close() })
		return m
	})
}
