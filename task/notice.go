package task

import "encoding/json"

// FinalNotice says how a task died. It is the context of a task in the queue that Queue.FinalQueue
// of the dead one's queue names, one for each death, stored in the same transaction. That task is
// tried, with its own queue's pauses, until a worker has done it: a handler that fails asks for a
// retry.
type FinalNotice struct {
	Task    ID     `json:"task"` // the one that died
	Queue   string `json:"queue"`
	Stage   string `json:"stage"`   // in which it died
	State   State  `json:"state"`   // dead
	Outcome Kind   `json:"outcome"` // of its last attempt: fail, retry, lost or timeout
	Attempt int    `json:"attempt"` // how many attempts of that stage were charged
	Worker  string `json:"worker"`  // the one that had it last
	Error   string `json:"error"`
	// that of the task that died; the task of the notice has it, too
	Meta    map[string]string `json:"meta,omitempty"`
	Context json.RawMessage   `json:"context,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"` // of a fail that said one
	// context and result are too large for a notice, perhaps the meta, too: read the task
	Short bool `json:"short,omitempty"`
}
