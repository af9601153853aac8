package view

// KeyRule is what is said of a group key of a queue. A key of which nothing is said is not paused,
// and weighs 1.
type KeyRule struct {
	Key         string `json:"key"`
	Paused      bool   `json:"paused" doc:"nothing of the key begins; what runs goes on"`
	PausedUntil Time   `json:"paused_until" nullable:"true" doc:"when the pause ends by itself; null = the key is not paused, or, with paused, it is until somebody resumes it"`
	Weight      int    `json:"weight" doc:"tasks of a turn of the key, where keys take turns; 1 = as of all others"`
}

// QueueKey is a group key of a queue that has work, or of which something is said.
type QueueKey struct {
	KeyRule
	Ready   int64 `json:"ready" doc:"tasks that are due and do not run"`
	Running int64 `json:"running" doc:"tasks that run, as far as that is written down: in a queue without limits a second after they began"`
}

// QueueKeys are the group keys of a queue, those with the most work first.
type QueueKeys struct {
	Items []QueueKey `json:"items" nullable:"false"`
	Cut   bool       `json:"cut" doc:"the queue has so much work that not all of it was looked at: numbers may be too small, and keys be left out"`
}
