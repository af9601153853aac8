package view

import "time"

// Time is a time as answers have it: RFC 3339 in UTC with milliseconds; the zero time is null.
type Time struct{ time.Time }

// timeForm is how a time is written in JSON.
const timeForm = `"2006-01-02T15:04:05.000Z"`

// MarshalJSON writes the time, in milliseconds; what is finer is cut off. Reading is that of
// time.Time, which leaves the time as it is at null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(nil, timeForm), nil
}
