package view

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Duration is a duration as answers have it: text as Go writes it. It reads days, too.
type Duration time.Duration

// MarshalText writes the duration, as in 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it, as ParseDuration does.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// day is always so long, whatever clocks do.
const day = 24 * time.Hour

// ParseDuration reads a duration as Go writes it, and with days before the rest: 2d, 1d12h, 0.5d.
// It is what every flag and every field goes by that takes a duration.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, some := strings.Cut(text, "d")
	if !some {
		return time.ParseDuration(text)
	}
	unsigned := strings.TrimLeft(days, "+-")
	if unsigned == "" || strings.Trim(unsigned, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	d, err := time.ParseDuration(days + "h")
	if err != nil {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	const most = 1<<63 - 1
	if d.Abs() > most/24 {
		return 0, errTooLong
	}
	d *= day / time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	if more > most-d.Abs() {
		return 0, errTooLong
	}
	if strings.HasPrefix(days, "-") {
		more = -more
	}
	return d + more, nil
}

var errTooLong = errors.New("the duration is longer than 292 years")
