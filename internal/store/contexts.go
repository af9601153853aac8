package store

import "github.com/rotahq/rota/task"

// ContextsQuery asks what the stages of a task were handed.
type ContextsQuery struct {
	ID    task.ID
	From  int32 // 0 = what was submitted and all that follows, n = what stands from step n - 1 on
	Limit int   // at most so many
	Bytes int   // at most so many bytes of contexts, but one context in any case
}

// ContextStep is what a step says of a task's context.
type ContextStep struct {
	Seq        int32 // -1 = what was submitted
	Kind       task.Kind
	Stage      string // that follows
	ContextSeq int32  // as of a Step
	By         string
	At         int64
	Context    Value // what stands at ContextSeq, once it was read
}
