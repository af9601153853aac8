//go:build unix

package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
)

// A large value of a node whose clock is days behind is not taken for one of days ago that no row
// came to refer to: its row may be on the way.
func TestLargeValueOfANodeWhoseClockIsBehindIsKept(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{}))
	if _, err := c.pool.Exec(t.Context(), c.in(`CREATE OR REPLACE FUNCTION rota.micros(given bigint)
RETURNS bigint LANGUAGE sql VOLATILE AS $$
SELECT coalesce(given, (extract(epoch FROM clock_timestamp() + '3 days') * 1000000)::bigint) $$`),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Beat(t.Context(), nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), store.InlineLimit+1)
	v := must(c.Keep(t.Context(), long))(t)
	must(c.Prune(t.Context(), 100))(t)
	if got, err := c.Value(t.Context(), v); err != nil || !bytes.Equal(got, long) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
