package task

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func ExampleRate() {
	r, err := ParseRate("100/1m")
	fmt.Println(r.Count, "in", r.Per, err)
	_, err = ParseRate("0/1s")
	fmt.Println(err)
	// Output:
	// 100 in 1m0s <nil>
	// a rate's count must be 1 to 1000000, not 0; "0" takes the limit away
}

func TestRatesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Rate{
		"":           {},
		"0":          {},
		"100/1s":     {100, time.Second},
		"100/s":      {100, time.Second},
		"5/1m":       {5, time.Minute},
		"1/1h30m":    {1, 90 * time.Minute},
		"1000000/ms": {1_000_000, time.Millisecond},
		"1/24h":      {1, 24 * time.Hour},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, want %+v: %v", text, got, want, err)
		}
		again, err := ParseRate(got.String())
		if err != nil || again != got {
			t.Errorf("%q is written as %q, and read as %+v: %v", text, got.String(), again, err)
		}
	}
}

func TestWhatIsNoRateIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"100": "no rate", "/1s": "no rate", "100/": "no rate", "x/1s": "no rate",
		"1.5/1s": "no rate", "100/1": "no rate", "100/1x": "no rate", "+1/1s": "no rate",
		"99999999999999999999/1s": "no rate", "1/s/s": "no rate",
		"0/1s": "count must be", "-1/1s": "count must be", "1000001/1s": "count must be",
		"1/25h": "time must be", "1/0s": "time must be", "1/-1s": "time must be",
		"1/1us": "time must be", "1/1000001ns": "whole microseconds",
	} {
		if got, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v: %v, want an error with %q", text, got, err, want)
		}
	}
}

func FuzzRate(f *testing.F) {
	f.Add("100/1s")
	f.Add("1/ms")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRate(text)
		if err != nil {
			return
		}
		if again, err := ParseRate(r.String()); err != nil || again != r || r.Check() != nil {
			t.Fatalf("%q is %+v, which is written as %q and read as %+v: %v", text, r, r.String(),
				again, err)
		}
	})
}
