package rota

import (
	"errors"
	"strings"
	"testing"
)

// What can't be a store is said before anything is opened, and without the password that stands in
// it.
func TestStoreThatIsNoneIsAWrongConfiguration(t *testing.T) {
	for _, store := range []string{
		"postgres:/bad", "postgres:user:secret@host/db", "postgres://user:secret@host:port/db",
		"postgres://user:secret@host/db?sslmode=secretly",
		"postgres://user:secret@host/db?rota_connections=2",
		"postgres://user:secret@host/db?rota_colour=red", "mysql://user:secret@host/db", "sqlite:",
		"work.db",
	} {
		_, err := Open(t.Context(), Config{Store: store})
		if !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", store, err)
		}
	}
}
