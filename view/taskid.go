package view

import "github.com/rotahq/rota/task"

// TaskID is a task's id where there may be none: the zero one is an empty text.
type TaskID struct{ task.ID }

// MarshalText writes the id.
func (id TaskID) MarshalText() ([]byte, error) {
	if id == (TaskID{}) {
		return nil, nil
	}
	return id.ID.MarshalText()
}

// UnmarshalText reads it, and takes nothing else than a whole id or none.
func (id *TaskID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = TaskID{}
		return nil
	}
	return id.ID.UnmarshalText(b)
}
