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

// The spans of keys may use up what is examined and more, since opening one costs more than to
// examine one: whoever looks is told that there are others all the same.
func TestKeysSayWhenTheyWereCut(t *testing.T) {
	c := join(t, open(t, Config{}))
	const plain = 8                        // spans that nobody ever held cost 1 each
	const held = store.KeysExamined/13 - 1 // others 12, and 1 for their task
	sub := store.Submission{Holder: c.holder}
	for range plain + held + 2 { // one more was held, and is empty; one has no key
		sub.Batches = append(sub.Batches, c.batch(1, 1, false))
	}
	if _, err := c.Submit(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	if err := c.write(t.Context(), func(t *tx) error {
		_, err := t.exec(`WITH f AS (SELECT id, row_number() OVER (ORDER BY id) AS i FROM span)
UPDATE span SET key = printf('%05d', i), token = i > ?1, lo = i > ?2, hi = i > ?2 FROM f
WHERE f.id = span.id AND i <= ?2 + 1`, plain, plain+held)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Keys(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if !got.Cut || len(got.Keys) != plain+held {
		t.Errorf("got %d keys, cut %v; want %d keys, and it is cut", len(got.Keys), got.Cut,
			plain+held)
	}
}
