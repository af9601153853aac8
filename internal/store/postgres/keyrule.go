package postgres

import (
	"context"
	"errors"

	"github.com/rotahq/rota/internal/store"
)

// ChangeKey is to come.
func (s *Store) ChangeKey(context.Context, store.KeyChange) (store.KeyRule, error) {
	return store.KeyRule{}, errors.New("not yet")
}

// Keys is to come.
func (s *Store) Keys(context.Context, string) (store.KeyUses, error) {
	return store.KeyUses{}, errors.New("not yet")
}
