package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Erlang's C as tables have it.
func TestTheProbabilityToWaitIsErlangs(t *testing.T) {
	for _, c := range []struct{ slots, busy, want float64 }{
		{1, 0.5, 0.5}, {2, 1, 1.0 / 3}, {10, 5, 0.03611}, {10, 9, 0.66873}, {100, 90, 0.21687},
		{3, 2, 0.44444},
	} {
		if got := erlangC(c.slots, c.busy); math.Abs(got-c.want) > 0.0005 {
			t.Errorf("C(%v, %v) = %.5f, want %.5f", c.slots, c.busy, got, c.want)
		}
	}
}

// More slots never make a task wait more often, also where the formula changes, and between whole
// numbers of slots.
func TestTheProbabilityToWaitFallsWithSlots(t *testing.T) {
	for _, busy := range []float64{0.3, 4, 40, 240, 400} {
		last := 1.0
		for slots := busy * 1.001; slots < 3*busy+20; slots += 0.1 + busy/500 {
			p := erlangC(max(slots, 1), math.Min(busy, max(slots, 1)*fullest))
			if p > last*1.02+1e-4 || p < 0 || p > 1 {
				t.Fatalf("C(%v, %v) = %v after %v", slots, busy, p, last)
			}
			last = p
		}
	}
}

// With one slot, tasks that come independently of each other, and run times that are exponential,
// all is known exactly: P(W > t) = ρ e^(-(1 - ρ) t / E[S]).
func TestWithOneSlotTheWaitIsExact(t *testing.T) {
	for _, rho := range []float64{0.1, 0.5, 0.9} {
		w := chanceOf(1, rho, 2*3, 1, 3) // runs of 3 s: spread is E[S²]/E[S] = 6 s
		for _, at := range []float64{0, 1, 10, 100} {
			if want := rho * math.Exp(-(1-rho)*at/3); math.Abs(w.beyond(at)-want) > 1e-9 {
				t.Errorf("ρ = %v: P(W > %v) = %v, want %v", rho, at, w.beyond(at), want)
			}
		}
	}
}

// What a burst waits for itself and what chance adds is what a simulation of the sum says.
func TestTheTailIsThatOfTheSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, w := range []chance{
		{0.3, 2, 0}, {0, 0, 5}, {0.4, 1, 5}, {1, 5, 1}, {0.9, 0.001, 3}, {0.5, 300, 0.1},
	} {
		const n = 200_000
		for _, at := range []float64{0, 0.5, 2, 6} {
			over := 0
			for range n {
				x := w.burst * r.Float64()
				if r.Float64() < w.delayed {
					x += w.mean * r.ExpFloat64()
				}
				if x > at {
					over++
				}
			}
			if got := w.beyond(at); math.Abs(got-float64(over)/n) > 0.005 {
				t.Errorf("%+v: P(W > %v) = %v, drawn %v", w, at, got, float64(over)/n)
			}
		}
	}
}

func TestNothingWaitsWhereNothingComes(t *testing.T) {
	if w := chanceOf(4, 0, 0, 1, 0); w.beyond(0) != 0 {
		t.Errorf("%+v", w)
	}
}

func TestDispersionTellsBurstsFromRates(t *testing.T) {
	draw := func(seed uint64, n int, f func(r *rand.Rand, i int) float64) []float64 {
		r := rand.New(rand.NewPCG(seed, 3))
		list := make([]float64, n)
		for i := range list {
			list[i] = f(r, i)
		}
		return list
	}
	poissonOf := func(r *rand.Rand, mean float64) (n float64) {
		for left := mean - r.ExpFloat64(); left > 0; left -= r.ExpFloat64() {
			n++
		}
		return n
	}
	const n = 6000 // of so many minutes chance says little
	for _, c := range []struct {
		name        string
		counts      []float64
		least, most float64
	}{
		{"none", nil, 1, 1}, {"two", []float64{1, 100}, 1, 1},
		{"steady", make([]float64, 60), 1, 1},
		{"independent", draw(1, n, func(r *rand.Rand, _ int) float64 {
			return poissonOf(r, 50)
		}), 1, 1.1},
		{"a slope", draw(2, n, func(r *rand.Rand, i int) float64 {
			return poissonOf(r, float64(10+i/20))
		}), 1, 1.1},
		{"steps", draw(3, n, func(r *rand.Rand, i int) float64 {
			return poissonOf(r, float64(20+400*(i/7%2)))
		}), 1, 1.4},
		{"bursts of 30", draw(4, n, func(r *rand.Rand, _ int) float64 {
			return 30 * poissonOf(r, 2)
		}), 25, 36},
		{"rare bursts of 500", draw(5, n, func(r *rand.Rand, _ int) float64 {
			return 500 * poissonOf(r, 0.05)
		}), 450, 700},
		{"one burst of 80", slices.Concat(make([]float64, 30), []float64{80}, make([]float64, 29)),
			80, 80},
	} {
		if got := dispersion(c.counts); got < c.least || got > c.most {
			t.Errorf("%s: %.2f, want %v to %v", c.name, got, c.least, c.most)
		}
	}
}
