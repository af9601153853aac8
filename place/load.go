package place

import (
	"fmt"
	"math"
	"strings"
)

// Load is an amount of load in thousandths of a unit. It is a whole number, so that sums are exact
// in any order.
type Load int64

// Unit is the load of a job that says nothing else, and MaxLoad the greatest load or capacity there
// is.
const (
	Unit    Load = 1000
	MaxLoad Load = 1 << 53
)

// ParseLoad makes a load of a number of units: at least 0, at most 2^53 thousandths, and with no
// more than three decimals. It refuses what it would have to round, so that what is added up is
// what was said.
func ParseLoad(units float64) (Load, error) {
	switch {
	case math.IsNaN(units):
		return 0, fmt.Errorf("load NaN: not a number")
	case units < 0:
		return 0, fmt.Errorf("load %v: below 0", units)
	case units > MaxLoad.Float():
		return 0, fmt.Errorf("load %v: above %v", units, MaxLoad)
	}
	l := Load(math.Round(units * float64(Unit)))
	if l.Float() != units {
		return 0, fmt.Errorf("load %v: more than three decimals", units)
	}
	return l, nil
}

// Float is the load in units. Up to 2^43 units ParseLoad reads the same load back; above, a float64
// is too coarse to tell all thousandths apart.
func (l Load) Float() float64 { return float64(l) / float64(Unit) }

// String is the load in units, with as many decimals as it takes.
func (l Load) String() string {
	sign, n := "", uint64(l)
	if l < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%03d", sign, n/uint64(Unit), n%uint64(Unit))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// plus adds two loads that are not negative. What would overflow is the greatest number there is.
func (l Load) plus(m Load) Load {
	if l > math.MaxInt64-m {
		return math.MaxInt64
	}
	return l + m
}

// times is n times a load, neither of them negative, with the same care.
func (l Load) times(n int) Load {
	if n > 0 && l > math.MaxInt64/Load(n) {
		return math.MaxInt64
	}
	return l * Load(n)
}
