package store

import (
	"strings"

	"github.com/rotahq/rota/task"
)

// Edit is what a KindEdited changes of a task: a task.Edit, as it is stored. Times are
// microseconds. What is nil stays as it is.
type Edit struct {
	Priority    *int64
	Due         *int64
	Context     *Value
	GroupKey    *string
	MaxAttempts *int32
	StartWithin *int64 // 0 = no limit
	Meta        *Meta
	Stage       *string // only who replaces a task by its unique key changes it
}

// EditedFields are the names of what is changed, one bit each. The bits are stored; never renumber.
type EditedFields int32

// The bits, in the order in which people read them.
const (
	ChangedPriority EditedFields = 1 << iota
	ChangedDue
	ChangedContext
	ChangedGroupKey
	ChangedMaxAttempts
	ChangedStartWithin
	ChangedMeta
	ChangedStage
)

var changeNames = [...]string{
	task.EditsPriority, task.EditsDue, task.EditsContext, task.EditsGroupKey,
	task.EditsMaxAttempts, task.EditsStartWithin, task.EditsMeta,
	task.EditsStage,
}

// String names the bits that are set, as a task.Step does.
func (c EditedFields) String() string {
	var list []string
	for i, name := range changeNames {
		if c>>i&1 == 1 {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}

// Changes says what the edit changes.
func (e *Edit) Changes() (c EditedFields) {
	for _, f := range [...]struct {
		set bool
		bit EditedFields
	}{
		{e.Priority != nil, ChangedPriority}, {e.Due != nil, ChangedDue},
		{e.Context != nil, ChangedContext}, {e.GroupKey != nil, ChangedGroupKey},
		{e.MaxAttempts != nil, ChangedMaxAttempts},
		{e.StartWithin != nil, ChangedStartWithin}, {e.Meta != nil, ChangedMeta},
		{e.Stage != nil, ChangedStage},
	} {
		if f.set {
			c |= f.bit
		}
	}
	return c
}

// Override is what stands beside the step of an edit. It is whole: what the edit left alone it has
// from before. So the newest one of a task says what holds in place of what was submitted, and
// steps that follow need not repeat it.
type Override struct {
	HeadStart   int64 // the priority, microseconds
	GroupKey    string
	MaxAttempts int32
	Expires     int64 // see Loaded; it holds while the step of the edit is the task's newest one
	// Meta is nil while no edit has changed the meta: then it is the submitted one. So edits of
	// other fields don't copy it, and rows from before metas could be edited say what is true.
	Meta    *Meta
	Changed EditedFields
	// Over is the step whose context that of this step took the place of, -1 = the task's own, or
	// NotReplaced. It is how a replay finds the context to begin with: see rules.Begin.
	Over int32
}

// NotReplaced is the Over of an edit that left the context alone.
const NotReplaced int32 = -2

// Replacement is an edit that changed a task's context: where it stands, the stage in which the
// task was, and which context it took the place of.
type Replacement struct {
	Seq   int32
	Stage string
	Over  int32
	// Restaged: the task was replaced before anybody had seen it, also its stage. A replay that
	// would begin with what was replaced begins in that stage.
	Restaged bool
}
