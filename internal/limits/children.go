package limits

import (
	"maps"

	"github.com/rotahq/rota/task"
)

// CheckChild adds to e all that is wrong with a child to be, under location, as CheckSubmission
// does. Its Meta are those of its parent, with its own on top: see WithMeta.
func CheckChild(s *task.Submission, e *task.InvalidError, location string) {
	checkSubmission(s, e, location)
	if s.Unique != nil {
		e.Add(location+".unique", "children have none: give a key instead, which makes a task the "+
			"only one of its queue as long as the key is remembered")
	}
}

// WithMeta is a child with what it has of its parent: the strings that it does not name itself.
func WithMeta(s task.Submission, parent map[string]string) task.Submission {
	if len(parent) == 0 {
		return s
	}
	all := maps.Clone(parent)
	maps.Copy(all, s.Meta)
	s.Meta = all
	return s
}
