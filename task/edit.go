package task

import (
	"encoding/json"
	"time"
)

// Edit is what is to be changed of a task that neither runs nor is over. Fields that are nil stay
// as they are, and at least one is set. An edit is no outcome: it costs no attempt, and what the
// task has been through stands.
type Edit struct {
	Priority *time.Duration // head start in the queue, >= 0
	Due      *time.Time     // not together with Delay
	Delay    *time.Duration // due so long after the edit
	// any JSON value, kept byte for byte; the JSON null is none. A task that is still in its first
	// stage with the context that it was submitted with has this one from the start, also for
	// replays.
	Context     json.RawMessage
	GroupKey    *string // "" = none
	MaxAttempts *int    // 0 = the queue's
	// StartWithin is that of a Submission, from the task's due time on; 0 = it waits for ever. It
	// does nothing to a task that was handed out before. An edit of the due time moves the end of
	// the time to start along.
	StartWithin *time.Duration
	// Meta takes the place of all strings that the task carries, as it does in a Submission; one
	// that is empty, but not nil, takes them away.
	Meta map[string]string
}

// The names of what an edit changes, as the API and [Step.Changed] say them.
const (
	EditsPriority    = "priority"
	EditsDue         = "due"
	EditsContext     = "context"
	EditsGroupKey    = "group_key"
	EditsMaxAttempts = "max_attempts"
	EditsStartWithin = "start_within"
	EditsMeta        = "meta"
	EditsStage       = "stage" // only who replaces a task by its unique key changes that
)

// Changed names what the edit changes, in the order of its fields; a delay is a due time.
func (e *Edit) Changed() []string {
	var list []string
	for _, f := range [...]struct {
		set  bool
		name string
	}{
		{e.Priority != nil, EditsPriority},
		{e.Due != nil || e.Delay != nil, EditsDue},
		{e.Context != nil, EditsContext},
		{e.GroupKey != nil, EditsGroupKey},
		{e.MaxAttempts != nil, EditsMaxAttempts},
		{e.StartWithin != nil, EditsStartWithin},
		{e.Meta != nil, EditsMeta},
	} {
		if f.set {
			list = append(list, f.name)
		}
	}
	return list
}
