package model_test

import (
	"testing"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/store/storetest"
)

func TestModelKeepsTheContract(t *testing.T) {
	storetest.Run(t, model.Reference, func(t *testing.T, clock *contract.Clock) contract.Store {
		m := model.New(clock.Now)
		t.Cleanup(func() { m.Close() })
		return m
	})
}
