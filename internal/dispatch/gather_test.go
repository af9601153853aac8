package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Under load a flight waits a little for company; who comes alone never waits.
func TestFlightAfterACrowdWaitsForCompany(t *testing.T) {
	const company = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var left []time.Duration // when each flight left, and its weight
		var weights []int
		g := gather[int]{flights: 1, company: company, limit: 10_000, room: 10_000,
			size: func(n *int) int {
				return *n
			}}
		g.fly = func(load []*int) {
			sum := 0
			for _, n := range load {
				sum += *n
			}
			left = append(left, time.Since(begin))
			weights = append(weights, sum)
			time.Sleep(10 * time.Millisecond) // its way
		}
		add := func(n int) {
			if !g.add(&n) {
				t.Fatal("refused")
			}
		}
		add(1) // alone
		time.Sleep(time.Millisecond)
		add(200) // while that one flies
		time.Sleep(10 * time.Millisecond)
		add(50)
		time.Sleep(9*time.Millisecond + company/2) // the crowd has landed, and 50 wait for company
		add(60)
		time.Sleep(time.Second)
		add(1)
		time.Sleep(time.Second)
		g.close()
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		if want := []time.Duration{0, ms(10), ms(21),
			1020*time.Millisecond + company/2}; !slices.Equal(left, want) {
			t.Errorf("flights left at %v, want %v", left, want)
		}
		if want := []int{1, 200, 110, 1}; !slices.Equal(weights, want) {
			t.Errorf("flights of %v, want %v", weights, want)
		}
	})
}
