package task

import (
	"errors"
	"fmt"
	"strings"
)

// What the refusal of a call means, whoever refuses it: a node in this process, or a server by way
// of a client. Find it with errors.Is. Unless it is ErrOutcomeUnknown nothing was changed.
var (
	// ErrInvalid: what was asked for is wrong; an *InvalidError has the places.
	ErrInvalid = errors.New("invalid request")
	// ErrTooLarge: it is only too large. This is an ErrInvalid, too.
	ErrTooLarge = errors.New("too large")
	ErrNotFound = errors.New("not found")
	// ErrConflict: the thing is not in a state that allows it.
	ErrConflict = errors.New("wrong state")
	// ErrFull: no room on the store's disk.
	ErrFull = errors.New("store is full")
	// ErrUnavailable: it can't be done just now. Try again in a moment.
	ErrUnavailable = errors.New("no answer to be had now")
	// ErrOutcomeUnknown: it was asked for, and nobody knows what became of it. A submission may be
	// repeated safely if its tasks have keys, most other calls as they are.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// FieldError says what is wrong with one place of the input.
type FieldError struct {
	Location string // as in body.tasks[3].queue
	Message  string // what is wrong and what would be right
}

// InvalidError is input that was understood and refused; nothing was changed.
type InvalidError struct {
	TooLarge bool // it is only too large: 413 instead of 422
	Fields   []FieldError
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Location + ": " + f.Message
	}
	return strings.Join(parts, "; ")
}

// Add notes one more thing that is wrong.
func (e *InvalidError) Add(location, format string, args ...any) {
	e.Fields = append(e.Fields, FieldError{location, fmt.Sprintf(format, args...)})
}

// Err is e when something is wrong, else nil.
func (e *InvalidError) Err() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// Is tells whether the refusal means target: ErrInvalid, or ErrTooLarge.
func (e *InvalidError) Is(target error) bool {
	return target == ErrInvalid || e.TooLarge && target == ErrTooLarge
}
