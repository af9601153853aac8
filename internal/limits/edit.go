package limits

import (
	"github.com/rotahq/rota/task"
)

// CheckEdit says what is wrong with an edit, under location; nil: nothing. The context's size is
// the queue's affair.
func CheckEdit(d *task.Edit, location string) error {
	e := &task.InvalidError{}
	wrong := func(field, format string, args ...any) { e.Add(location+"."+field, format, args...) }
	if len(d.Changed()) == 0 {
		e.Add(location, "changes nothing: give priority, due, delay, context, group_key, "+
			"max_attempts, start_within or meta")
	}
	if p := d.Priority; p != nil && (*p < 0 || *p > MaxPriority) {
		wrong("priority", "must be 0s to %v", MaxPriority)
	}
	if d.Due != nil && (d.Due.Before(MinTime) || !d.Due.Before(MaxTime)) {
		wrong("due", "must lie in the years 2000 to 2199")
	}
	if d.Delay != nil && (*d.Delay < 0 || *d.Delay > MaxDuration) {
		wrong("delay", "must be 0s to %v", MaxDuration)
	}
	if d.Due != nil && d.Delay != nil {
		wrong("delay", "give due or delay, not both")
	}
	if d.GroupKey != nil && !ValidText(*d.GroupKey, MaxKey) {
		wrong("group_key", "must be at most %d bytes of printable UTF-8", MaxKey)
	}
	if n := d.MaxAttempts; n != nil && (*n < 0 || *n > MaxAttempts) {
		wrong("max_attempts", "must be 1 to %d, or 0 for the queue's", MaxAttempts)
	}
	if d.StartWithin != nil && !validStartWithin(*d.StartWithin) {
		wrong("start_within", startWithinRule, MaxDuration)
	}
	CheckMeta(d.Meta, e, location+".meta")
	return e.Err()
}
