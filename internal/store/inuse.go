package store

import "fmt"

// InUse is what keeps something from being deleted without force. It is an [ErrConflict].
type InUse struct {
	Count int64
	Noun  string // in the singular, as in job
}

func (u *InUse) Error() string {
	if u.Count == 1 {
		return "it has 1 " + u.Noun
	}
	return fmt.Sprintf("it has %d %ss", u.Count, u.Noun)
}

func (u *InUse) Unwrap() error { return ErrConflict }
