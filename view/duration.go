package view

import (
	"fmt"
	"time"
)

// Duration is a duration as answers have it: text as Go writes it.
type Duration time.Duration

// MarshalText writes the duration, as in 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	*d = Duration(v)
	return nil
}
