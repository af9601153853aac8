package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Only what stays until somebody takes it back is counted: a pause that ends goes by itself.
func TestAQueueHasOnlySoManyRulesOfKeysThatStay(t *testing.T) {
	s := open(t, Config{})
	ctx := t.Context()
	if _, err := s.ChangeQueue(ctx, "q", func(*task.Queue, bool) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.write(ctx, func(t *tx) error {
		_, err := t.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO key_rule (queue, key, paused, weight) SELECT 'q', 'k' || i, 0, 2 FROM n`,
			store.MaxKeyRules)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		change store.KeyChange
		want   error
	}{
		{"a weight more", store.KeyChange{Key: "x", Weight: new(2)}, store.ErrKeyRules},
		{"a pause for good", store.KeyChange{Key: "x", Pause: store.Forever}, store.ErrKeyRules},
		{"a pause that ends", store.KeyChange{Key: "x", Pause: time.Hour}, nil},
		{"one of those that have one", store.KeyChange{Key: "k7", Weight: new(3)}, nil},
		{"one goes", store.KeyChange{Key: "k7", Weight: new(0)}, nil},
		{"another one comes", store.KeyChange{Key: "x", Weight: new(2)}, nil},
	} {
		step.change.Queue = "q"
		if _, err := s.ChangeKey(ctx, step.change); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
}
