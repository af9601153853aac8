package postgres

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
)

// What stands with a membership is decided by two rows, which two transactions change at the same
// time. Whoever renews and whoever judges must see each other's outcome.

// With each of them in the same moment: who was given the claim, and what its holder was told,
// never say both that it has it.
func TestRenewalThatMeetsATakeoverIsToldOfIt(t *testing.T) {
	dsn := contested.database(t)
	a, b := open(t, Config{DSN: dsn}), open(t, Config{DSN: dsn})
	must(b.Acquire(t.Context(), "node/b", "b@1", time.Hour, nil))(t)
	want := []store.Lease{{Name: "claim/key", Until: store.WhileMember}}
	renewed, taken := 0, 0
	for i := range 300 {
		member := must(a.Acquire(t.Context(), "node/a", "a@1", time.Hour, nil))(t)
		mine := must(a.AcquireAll(t.Context(), "a@1", want, time.Hour, math.MaxInt64))(t).Leases
		if len(mine) != 1 {
			t.Fatalf("%d: the claim was not to be had", i)
		}
		must(a.Renew(t.Context(), []store.Lease{member}, -time.Second))(t) // it has just expired
		var told store.Beat
		var got store.Granted
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() {
			told, errs[0] = a.Beat(t.Context(), []store.Lease{member}, time.Hour, "claim/")
		})
		both.Go(func() {
			got, errs[1] = b.AcquireAll(t.Context(), "b@1", want, time.Hour, math.MaxInt64)
		})
		both.Wait()
		if errs != [2]error{} {
			t.Fatal(errs)
		}
		if len(told.Kept) != 1 {
			t.Fatal("the membership was not renewed")
		}
		held := slices.ContainsFunc(told.Leases, func(l store.Lease) bool {
			return l.Name == mine[0].Name && l.Token == mine[0].Token
		})
		if held == (len(got.Leases) == 1) {
			t.Fatalf("round %d: a was told that it holds the claim: %v, b was given %d", i, held,
				len(got.Leases))
		}
		if held {
			renewed++
			got.Leases = mine
		} else {
			taken++
		}
		if err := a.EndAll(t.Context(), got.Leases, false); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("renewed first %d times, taken first %d times", renewed, taken)
}

func TestClaimThatMeetsTheEndOfItsMembershipOutlivesItOrIsRefused(t *testing.T) {
	dsn := contested.database(t)
	a, b := open(t, Config{DSN: dsn}), open(t, Config{DSN: dsn})
	for i := range 300 {
		member := must(a.Acquire(t.Context(), "node/a", "a@1", time.Hour, nil))(t)
		remove := i%2 == 0
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() {
			_, errs[0] = a.AcquireAll(t.Context(), "a@1",
				[]store.Lease{{Name: "claim/key", Until: store.WhileMember}}, time.Hour,
				math.MaxInt64)
		})
		both.Go(func() { errs[1] = b.EndAll(t.Context(), []store.Lease{member}, remove) })
		both.Wait()
		if errs != [2]error{} {
			t.Fatal(errs)
		}
		claims := must(a.LeasesOf(t.Context(), "claim/"))(t)
		if len(claims) == 1 && claims[0].Until == store.WhileMember {
			t.Fatalf("round %d: it stands with a membership that is gone", i)
		}
		if err := a.EndAll(t.Context(), claims, i%3 == 0); err != nil {
			t.Fatal(err)
		}
	}
}

// What a beat costs a node with 10,000 claims: as it is, and were each of them renewed.
func BenchmarkBeatOf10000Claims(b *testing.B) {
	for _, renewed := range []string{"membership", "each"} {
		b.Run(renewed, func(b *testing.B) {
			s := open(b, Config{DSN: pgtest.Shared(b).Database(b)})
			held := []store.Lease{must(s.Acquire(b.Context(), "node/a", "a@1", time.Hour, nil))(b)}
			var wants []store.Lease
			for i := range 10_000 {
				wants = append(wants, store.Lease{
					Name: fmt.Sprintf("claim/key/%05d", i), Until: store.WhileMember,
					Value: []byte(`{"since":1}`),
				})
			}
			got := must(s.AcquireAll(b.Context(), "a@1", wants, time.Hour, math.MaxInt64))(b).Leases
			if renewed == "each" {
				held = append(held, got...)
				slices.SortFunc(held, func(a, b store.Lease) int {
					return strings.Compare(a.Name, b.Name)
				})
			}
			for b.Loop() {
				if beat := must(s.Beat(b.Context(), held, time.Hour, "node/",
					"claim/"))(b); len(beat.Kept) != len(held) || len(beat.Leases) != 10_001 {
					b.Fatal(len(beat.Kept), len(beat.Leases))
				}
			}
		})
	}
}
