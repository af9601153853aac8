package task

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
