package view

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDurationIsTextAsGoWritesIt(t *testing.T) {
	for d, text := range map[time.Duration]string{
		0: `"0s"`, 90 * time.Second: `"1m30s"`, -1500 * time.Microsecond: `"-1.5ms"`,
	} {
		got, err := json.Marshal(Duration(d))
		if err != nil || string(got) != text {
			t.Errorf("%v is written as %s, want %s (%v)", d, got, text, err)
		}
		var again Duration
		if err := json.Unmarshal(got, &again); err != nil || again != Duration(d) {
			t.Errorf("%s is read as %v (%v)", got, time.Duration(again), err)
		}
	}
	again := Duration(time.Second)
	if err := json.Unmarshal([]byte(`"soon"`), &again); err == nil ||
		again != Duration(time.Second) {
		t.Errorf("read %v, %v", time.Duration(again), err)
	}
}

func TestDurationsHaveDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"2d": 2 * day, "30d": 30 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour,
		"-1d": -day, "-1d1h": -25 * time.Hour, "+1d1ms": day + time.Millisecond, "0d": 0,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "106751d": 106751 * day,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is read as %v (%v), want %v", text, got, err, want)
		}
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%q is read as %v (%v), want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{
		"", "d", "2", "2 d", "1h2d", "1d2d", "1d-2h", "1d+2h", "--1d", "1dd", "xd", "1ed", "1e2d",
		"106752d", "99999999999d", "106751d24h", "-d", ".d", "1d1", "一d",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// Whatever Go writes is read as Go reads it.
func FuzzDurationsOfGoAreReadAsGoDoes(f *testing.F) {
	f.Add(int64(90_000_000_000))
	f.Fuzz(func(t *testing.T, n int64) {
		text := time.Duration(n).String()
		if got, err := ParseDuration(text); err != nil || got != time.Duration(n) {
			t.Errorf("%q is read as %v (%v)", text, got, err)
		}
	})
}
