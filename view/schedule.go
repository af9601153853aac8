package view

// ScheduleReceipt is what became of one schedule of several that were put together.
type ScheduleReceipt struct {
	Name    string `json:"name"`
	Created bool   `json:"created" doc:"there was none of this name"`
	Version int64  `json:"version"`
	Next    Time   `json:"next" nullable:"true" doc:"the next due time"`
}
