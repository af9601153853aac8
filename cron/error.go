package cron

import "fmt"

// SyntaxError says what is wrong with an expression, and where.
type SyntaxError struct {
	Text    string // the expression
	Field   string // as in "hour"; "" when it is the whole that is wrong
	At, Len int    // of the faulty part, in bytes of Text
	Message string // what is wrong and what would be right
}

func (e *SyntaxError) Error() string {
	part := e.Text[e.At : e.At+e.Len]
	if len(part) > 40 {
		part = part[:40] + "…"
	}
	switch {
	case e.Field == "" && part == "" && e.At > 0:
		return fmt.Sprintf("cron expression (at %d): %s", e.At+1, e.Message)
	case e.Field == "" && part == "":
		return "cron expression: " + e.Message
	case e.Field == "":
		return fmt.Sprintf("cron expression: %q: %s", part, e.Message)
	}
	return fmt.Sprintf("cron expression: %s %q (at %d): %s", e.Field, part, e.At+1, e.Message)
}
