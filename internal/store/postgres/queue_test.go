//go:build unix

package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
)

// Idempotency keys outlive their tasks: a busy queue has millions. They do not go in one statement,
// which would end by its timeout, at each try.
func TestKeysGoWithTheirQueueAPieceAtATime(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	commits := func(keys int) int64 {
		if _, err := c.ChangeQueue(
			t.Context(), "q", store.Whole(limits.DefaultQueue("q")),
		); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			`INSERT INTO rota.task_key (queue, key, batch, n, until)
SELECT 'q', i, 1, i, 9000000000000000 FROM generate_series(1, $1::int) i`,
			`INSERT INTO rota.bucket (queue, key, level, at, full_at)
SELECT 'q', i, 0, 0, 9000000000000000 FROM generate_series(1, $1::int) i`,
		} {
			if _, err := c.pool.Exec(t.Context(), c.in(text), keys); err != nil {
				t.Fatal(err)
			}
		}
		before := c.Commits()
		if err := c.DeleteQueue(t.Context(), "q", false); err != nil {
			t.Fatal(err)
		}
		return c.Commits() - before
	}
	few, many := commits(1), commits(3*forgottenAtOnce+1)
	if many != few+2*3 {
		t.Errorf("%d transactions delete the keys, where %d are enough for few", many, few)
	}
	for _, table := range []string{"task_key", "bucket"} {
		left := 0
		if err := c.pool.QueryRow(
			t.Context(), c.in("SELECT count(*) FROM rota."+table),
		).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d rows of %s are left, %v", left, table, err)
		}
	}
}

// Who lost against others at each try has changed nothing, and is to try again.
func TestLostRacesAreToBeRunAgain(t *testing.T) {
	d := &database{}
	for _, code := range []string{codeDeadlock, codeSerial} {
		err := d.judge(&pgconn.PgError{Code: code}, nil, true)
		if !errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrUnknown) || !lostRace(err) {
			t.Errorf("%s: %v", code, err)
		}
	}
}
