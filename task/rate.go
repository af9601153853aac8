package task

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is how fast something may happen: Count times in Per, as 100 times a second. The zero Rate
// is any speed. Its text is "100/1s"; that of the zero Rate is empty.
type Rate struct {
	Count int64
	Per   time.Duration
}

// Most and least of what a Rate may say.
const (
	MaxRateCount = 1_000_000
	MinRatePer   = time.Millisecond
	MaxRatePer   = 24 * time.Hour
)

// String is the rate as ParseRate reads it.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return strconv.FormatInt(r.Count, 10) + "/" + r.Per.String()
}

// ParseRate reads a rate: a count and a duration, as "100/1s", "5/1m" or "1/1h30m"; or with a unit
// of time alone, as "100/s". "" and "0" are the zero Rate.
func ParseRate(text string) (Rate, error) {
	if text == "" || text == "0" {
		return Rate{}, nil
	}
	wrong := func() (Rate, error) {
		return Rate{}, fmt.Errorf(
			`%.40q is no rate: it must be a count and a duration, as "100/1s" or "5/1m"; `+
				`"0" takes the limit away`, text)
	}
	count, per, ok := strings.Cut(text, "/")
	if !ok {
		return wrong()
	}
	if per != "" && strings.Trim(per, "abcdefghijklmnopqrstuvwxyzµ") == "" {
		per = "1" + per
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || count[0] == '+' {
		return wrong()
	}
	d, err := time.ParseDuration(per)
	if err != nil {
		return wrong()
	}
	r := Rate{Count: n, Per: d}
	return r, r.Check()
}

// Check says what is wrong with a rate; nil = nothing.
func (r Rate) Check() error {
	switch {
	case r == (Rate{}):
		return nil
	case r.Count < 1 || r.Count > MaxRateCount:
		return fmt.Errorf(`a rate's count must be 1 to %d, not %d; "0" takes the limit away`,
			MaxRateCount, r.Count)
	case r.Per < MinRatePer || r.Per > MaxRatePer:
		return fmt.Errorf("a rate's time must be %v to %v, not %v", MinRatePer, MaxRatePer, r.Per)
	case r.Per%time.Microsecond != 0:
		return fmt.Errorf("a rate's time must be whole microseconds, not %v", r.Per)
	}
	return nil
}

// MarshalText is String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}
