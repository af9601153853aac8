package store

import (
	"time"

	"github.com/rotahq/rota/task"
)

// FamilyQuery asks for tasks and the ids of their children, for a picture of what hangs below one.
type FamilyQuery struct {
	IDs      []task.ID
	Children int              // at most so many, of all tasks together, in the order of IDs
	After    int              // View.After is filled in until so many were read; of the rest not
	Live     map[task.ID]Live // as Filter.Live
}

// Family is a task and its children in its present run.
type Family struct {
	Task     task.View // as in a list, besides Children and After; zero = there is no such task
	Began    time.Time // its first hand-out in its present run; zero = there was none
	Finished time.Time // its newest step; zero = it has none
	Children []task.ID // oldest first; of those that are deleted some may be among them
}
