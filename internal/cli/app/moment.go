package app

import (
	"time"

	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
)

// Moment is a time as flags take it: RFC 3339, or how long ago.
func Moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := view.ParseDuration(text); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{},
			usage.Errorf("%s %q: want a time like %s or an age like 90m or 2d", flag, text,
				now.UTC().Format(time.RFC3339))
	}
	return t, nil
}
