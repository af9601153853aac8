// Package usage tells errors that another command line would have avoided from all others. The
// program exits with a code of its own after them, and points to its help.
package usage

import (
	"errors"
	"fmt"
)

// Err marks errors that another command line would have avoided.
var Err = errors.New("wrong usage")

// usageError is an Err with a text of its own.
type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == Err }

func Errorf(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }
