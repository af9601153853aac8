package simulate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
)

func TestWorkersAreReadFromOneFlag(t *testing.T) {
	for text, want := range map[string][]workerSpec{
		"60":      {{Count: 1, Capacity: 60 * task.Unit}},
		"3x0.125": {{Count: 3, Capacity: 125}},
		"0":       {{Count: 1}},
		"10x60,3x20": {{Count: 10, Capacity: 60 * task.Unit},
			{Count: 3, Capacity: 20 * task.Unit}},
		"3x60@zone=a": {{Count: 3, Capacity: 60 * task.Unit, Zone: "a"}},
		"1@k=v=w,2@x=y": {{Count: 1, Capacity: task.Unit, Labels: map[string]string{"k": "v=w"}},
			{Count: 1, Capacity: 2 * task.Unit, Labels: map[string]string{"x": "y"}}},
		"2x8@gpu=yes,zone=b,disk=,4": {
			{Count: 2, Capacity: 8 * task.Unit, Labels: map[string]string{"gpu": "yes", "disk": ""},
				Zone: "b"}, {Count: 1, Capacity: 4 * task.Unit},
		},
	} {
		got, err := ParseWorkers(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
}

func TestStrangeWorkersAreWrongUsage(t *testing.T) {
	for text, says := range map[string]string{
		"": "want a capacity", "x": "a count of 1", "0x60": "a count of 1", "-1x60": "a count of 1",
		"100001x1": "a count of 1", "3x": "want a capacity",
		"3x60,": "want a capacity", "3x60@": "want k=v", "3x60@zone": "want k=v",
		"3@=v": "want k=v", "3@a=1,a=2": "comes twice", "3@zone=a,zone=b": "comes twice",
		"3@a=\x1b": "want k=v", "NaN": "must be 0 to", "Inf": "must be 0 to", "-1": "must be 0 to",
		"2e9": "must be 0 to", "1.0001": "at most 3 decimals", "k=v": "want a capacity",
	} {
		_, err := ParseWorkers(text)
		if !errors.Is(err, usage.Err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// FuzzParseWorkers: no text breaks the parser, and what it accepts are workers that can be.
func FuzzParseWorkers(f *testing.F) {
	for _, text := range []string{"10x60,3x20@zone=a,k=v", "x", "1x0x10@", "0x1p-2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := ParseWorkers(text)
		if err != nil {
			if !errors.Is(err, usage.Err) {
				t.Errorf("%q: %v is no wrong usage", text, err)
			}
			return
		}
		for _, s := range specs {
			var e task.InvalidError
			limits.CheckLabels(&e, "labels", s.Labels)
			if s.Count < 1 || s.Capacity < 0 || s.Capacity > task.MaxLoad || e.Err() != nil {
				t.Errorf("%q is read as %+v", text, s)
			}
		}
	})
}
