package place

import (
	"fmt"
	"math"
	"testing"
)

func ExampleParseLoad() {
	l, err := ParseLoad(2.125)
	fmt.Println(l, l+Unit, l.Float(), err)
	_, err = ParseLoad(0.0001)
	fmt.Println(err)
	// Output:
	// 2.125 3.125 2.125 <nil>
	// load 0.0001: more than three decimals
}

func TestParseLoad(t *testing.T) {
	sum := 0.1
	sum += 0.2 // which the compiler would do exactly
	for _, test := range []struct {
		units float64
		want  Load
		err   string
	}{
		{0, 0, ""},
		{1, Unit, ""},
		{0.001, 1, ""},
		{sum, 0, "load 0.30000000000000004: more than three decimals"},
		{math.Copysign(0, -1), 0, ""},
		{MaxLoad.Float(), MaxLoad, ""},
		{math.Nextafter(MaxLoad.Float(), math.Inf(1)), 0,
			"load 9.007199254740994e+12: above 9007199254740.992"},
		{math.Inf(1), 0, "load +Inf: above 9007199254740.992"},
		{-0.001, 0, "load -0.001: below 0"},
		{math.Inf(-1), 0, "load -Inf: below 0"},
		{math.NaN(), 0, "load NaN: not a number"},
		{0.0005, 0, "load 0.0005: more than three decimals"},
		{math.SmallestNonzeroFloat64, 0, "load 5e-324: more than three decimals"},
	} {
		got, err := ParseLoad(test.units)
		if got != test.want || (err == nil) != (test.err == "") || err != nil &&
			err.Error() != test.err {
			t.Errorf("%v: %v, %v; want %v, %q", test.units, got, err, test.want, test.err)
		}
	}
}

// FuzzParseLoad: every load that a float64 can tell from the next is read back from its number of
// units, and what is read is never rounded.
func FuzzParseLoad(f *testing.F) {
	f.Add(int64(1), 0.001)
	f.Add(int64(MaxLoad), 1e300)
	f.Add(int64(-1), math.NaN())
	f.Fuzz(func(t *testing.T, thousandths int64, units float64) {
		if l := Load(thousandths); l >= 0 && l.Float() <= 1<<43 {
			if got, err := ParseLoad(l.Float()); got != l || err != nil {
				t.Errorf("%d thousandths: %d, %v", l, got, err)
			}
		}
		if l, err := ParseLoad(units); err == nil && (l.Float() != units || l < 0 || l > MaxLoad) {
			t.Errorf("%v: read as %v", units, l)
		}
	})
}
