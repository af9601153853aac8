package task

import "fmt"

// ChildrenEnd says when a task that waits for its children has waited enough.
type ChildrenEnd string

const (
	AllChildren ChildrenEnd = "all"        // when each of them is done, dead, cancelled or expired
	FirstDead   ChildrenEnd = "first_dead" // besides as soon as one is dead or expired
)

// Spawning is an outcome, done or next, with tasks to submit along with it: all of them if it is
// recorded, and none otherwise, so that no crash loses one or doubles it. They are children of the
// task, which may wait for them:
//
//	return Join.NextOn(task.Await{Children: task.AllChildren}, sum).Spawning(pages...)
//
// What Meta the task has its children have, too, with their own on top. Other outcomes stay as they
// are; a child whose arguments can't be written down makes the outcome a failure.
func (o Outcome) Spawning(children ...Submission) Outcome {
	if o.Kind != KindDone && o.Kind != KindNext {
		return o
	}
	for i := range children {
		if err := children[i].Err; err != nil {
			return Fail(fmt.Errorf("child %d: %w", len(o.Spawn)+i, err))
		}
	}
	o.Spawn = append(o.Spawn[:len(o.Spawn):len(o.Spawn)], children...)
	return o
}

// Children counts the tasks that a task has submitted while it ran: in its present run, if it was
// replayed. What is not counted as ended is open.
type Children struct {
	Total     int64 `json:"total"`
	Done      int64 `json:"done"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
}

// Open is how many have not ended.
func (c *Children) Open() int64 {
	return c.Total - c.Done - c.Dead - c.Cancelled - c.Expired
}
