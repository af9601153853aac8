package api

// Engine is what calls about tasks and queues speak for; the dispatcher satisfies it. It is the sum
// of what they ask for, and stands only where the node is put together: each noun's calls are given
// the part that they need, which is described beside them. Errors that it answers with:
// *task.InvalidError, store.ErrNotFound, store.ErrConflict (wrapped, the text says why),
// store.ErrFull, store.ErrUnknown, store.ErrBusy, store.ErrClosed.
type Engine interface {
	Work
	Tasks
	TaskLogs
	Signals
	Parents
	Queues
	Keys
	Reasons
	Minutes
}
