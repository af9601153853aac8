package limits

import "github.com/rotahq/rota/task"

// checkUnique says what is wrong with the unique key of a submission.
func checkUnique(s *task.Submission, wrong func(field, format string, args ...any)) {
	switch s.OnExisting {
	case "", task.OnExistingKeep:
	case task.OnExistingReplace, task.OnExistingDebounce, task.OnExistingRefuse:
		if s.Unique == nil {
			wrong("on_existing", "%s needs unique", s.OnExisting)
		}
	default:
		wrong("on_existing", "must be keep, replace, debounce or refuse")
	}
	u := s.Unique
	if u == nil {
		return
	}
	switch {
	case u.Key == "":
		wrong("unique.key", "is needed: at least one character")
	case !ValidText(u.Key, MaxKey):
		wrong("unique.key", "must be at most %d bytes of printable UTF-8", MaxKey)
	case s.Key != "":
		wrong("unique", "give key or unique, not both: a key is never free again while it is "+
			"remembered")
	}
	switch u.While {
	case "", task.WhileWaiting, task.WhileUnfinished:
	default:
		wrong("unique.while", "must be waiting or unfinished")
	}
	if u.For < 0 || u.For > MaxDuration {
		wrong("unique.for", "must be 0s to %v", MaxDuration)
	}
}
