package forecast

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/forecast.md again")

// recordings are the traces by which the forecast is checked. All are made from fixed seeds.
var recordings = []struct {
	name   string
	target float64
	trace  trace
}{
	{"independent, 600 a minute of 0.5 s", 5, traceOf(1, poisson(600), exponential(0.5))},
	{"the same, wait below 0.1 s", 0.1, traceOf(1, poisson(600), exponential(0.5))},
	{"independent, 3,000 a minute of 2 s", 5, traceOf(2, poisson(3000), exponential(2))},
	{"the same, wait below 0.1 s", 0.1, traceOf(2, poisson(3000), exponential(2))},
	{"long tasks: 3 a minute of 2 min", 5, traceOf(3, poisson(3), exponential(120))},
	{"the same, wait below 1 min", 60, traceOf(3, poisson(3), exponential(120))},
	{"longer ones: 1 a minute of 20 min", 5, traceOf(14, poisson(1), exponential(1200))},
	{"rare: 1 a minute of 1 s", 5, traceOf(4, poisson(1), constant(1))},
	{"heavy tail (lognormal, σ 1.5), 120 a minute of 2 s", 5,
		traceOf(5, poisson(120), lognormal(2, 1.5))},
	{"heavy tail (Pareto, α 1.5), 300 a minute of 1 s", 5,
		traceOf(6, poisson(300), pareto(1, 1.5))},
	{"bursts of 200, 2 a minute, of 0.1 s", 5, traceOf(7,
		bursts(2, func(*rand.Rand) int { return 200 }), exponential(0.1))},
	{"bursts of 1 to 100, 6 a minute, of 1 s", 5, traceOf(8,
		bursts(6, func(r *rand.Rand) int { return 1 + r.IntN(100) }), exponential(1))},
	{"bursts of 1,000, one in ten minutes, of 1 s", 5, traceOf(9,
		bursts(0.1, func(*rand.Rand) int { return 1000 }), exponential(1))},
	{"the same, wait below 1 min", 60, traceOf(9,
		bursts(0.1, func(*rand.Rand) int { return 1000 }), exponential(1))},
	{"60 or 900 a minute, minutes long, of 0.4 s", 5,
		traceOf(10, switching(60, 900, 7), exponential(0.4))},
	{"a day's rise: 300 to 900 a minute in two hours, of 1 s", 5, traceOf(11,
		varying(900, func(at float64) float64 { return 300 + 5*max(at-60, 0) }), exponential(1))},
	{"a day's fall: 900 to 300 a minute in two hours, of 1 s", 5, traceOf(12,
		varying(900, func(at float64) float64 { return 900 - 5*max(at-60, 0) }), exponential(1))},
	{"300 at each full minute, of 0.2 s", 5, traceOf(13, func(*rand.Rand) (times []float64) {
		for at := range hours * 60 {
			for range 300 {
				times = append(times, float64(at*60))
			}
		}
		return times
	}, exponential(0.2))},
}

// row is one line of the table.
type row struct {
	busy     float64 // slots
	wanted   int     // by the forecast at the end of the recorded hour
	least    [2]int  // slots that this hour and the next needed, by simulation
	forecast float64 // p95 in seconds with those wanted
	was      [2]float64
	mean     float64 // slots in the next hour when each minute those are there that are wanted
	followed float64 // p95 then
}

func rowOf(target float64, t trace) (r row) {
	r.least = [2]int{t.least(target, 1), t.least(target, 2)}
	// the recorded hour is played with as many slots as it needed, which a cluster had in the end
	waits, first, mean := t.followed(r.least[0], target)
	r.wanted, r.mean, r.followed = first.Wanted, mean, t.p95(waits, 2)
	rec := newRecorder()
	played := t.simulated(r.wanted)
	for i, a := range t {
		rec.ran(a, played[i])
	}
	for m := range int64(121) {
		rec.read(m, r.wanted)
	}
	r.busy = rec.need(120, r.wanted, 0, target).Busy
	r.forecast = rec.need(120, r.wanted, 0, target).Waits.Seconds()
	r.was = [2]float64{t.p95(played, 1), t.p95(played, 2)}
	return r
}

const (
	page  = "../../docs/forecast.md"
	begin = "<!-- table: go test ./internal/forecast -run Error -update -->\n"
	end   = "<!-- end of table -->\n"
)

// The error of the forecast stands in its page, as it is.
func TestTheErrorOfTheForecastIsWhatThePageSays(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates some million tasks")
	}
	var b bytes.Buffer
	few, many, kept := 0.0, 0.0, 0
	fmt.Fprintln(&b, "| what comes | busy | target | wanted | needed: that hour | the next | p95: forecast | that hour | the next | followed: slots | p95 |")
	fmt.Fprintln(&b, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, rec := range recordings {
		r := rowOf(rec.target, rec.trace)
		fmt.Fprintf(&b, "| %s | %s | %v | %d | %d | %d | %v | %v | %v | %s | %v |\n", rec.name,
			number(r.busy), Short(rec.target), r.wanted, r.least[0], r.least[1], Short(r.forecast),
			Short(r.was[0]), Short(r.was[1]), number(r.mean), Short(r.followed))
		off := float64(r.wanted)/float64(r.least[0]) - 1
		few, many = min(few, off), max(many, off)
		if r.followed <= 1.25*rec.target {
			kept++
		}
	}
	fmt.Fprintf(&b, "\nIn that hour %.0f %% too few to %.0f %% too many; followed, the p95 was at most a quarter above its target in %d of %d.\n",
		-100*few, 100*many, kept, len(recordings))
	text, err := os.ReadFile(page)
	if err != nil {
		fmt.Println(b.String())
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), begin)
	old, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no place for the table", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != b.String() {
		t.Errorf("the page says\n%s, it is\n%s", old, b.String())
	}
}
