package view

// KeyRule is what is said of a group key of a queue. A key of which nothing is said is not paused,
// and weighs 1.
type KeyRule struct {
	Key         string `json:"key"`
	Paused      bool   `json:"paused" doc:"nothing of the key begins; what runs goes on"`
	PausedUntil Time   `json:"paused_until" nullable:"true" doc:"when the pause ends by itself; null = the key is not paused, or, with paused, it is until somebody resumes it"`
	Weight      int    `json:"weight" doc:"tasks of a turn of the key, where keys take turns; 1 = as of all others"`
	// Unheard are nodes that may still let the key begin as before. Only the answer to a change
	// says so.
	Unheard []string `json:"unheard,omitempty" doc:"in the answer to a change: nodes that did not take it in within 15 s, and do so as soon as they can; left out when all did"`
}

// KeyState says whether a task of a group key may begin.
type KeyState string

// States of a group key.
const (
	KeyOpen    KeyState = "open"    // nothing of the key holds its tasks back
	KeyPaused  KeyState = "paused"  // until the pause ends, or somebody resumes it
	KeyFull    KeyState = "full"    // as many of its tasks run as may
	KeyRate    KeyState = "rate"    // its rate is used up for a while
	KeyOrder   KeyState = "order"   // its tasks go in order: one that began comes first
	KeyStopped KeyState = "stopped" // its tasks go in order: a dead one stops it
)

// QueueKey is a group key of a queue that has work, or of which something is said.
type QueueKey struct {
	KeyRule
	State   KeyState `json:"state" enum:"open,paused,full,rate,order,stopped" doc:"open = nothing of the key holds its tasks back; full = as many run as may; rate = its rate is used up for a while; order = its tasks go in order, and one that began and is not over comes first; stopped = they go in order, and a dead one stops it"`
	OpensAt Time     `json:"opens_at" nullable:"true" doc:"when what holds it back ends by itself: a pause, or the wait for its rate"`
	Ready   int64    `json:"ready" doc:"tasks that are due and do not run"`
	Running int64    `json:"running" doc:"tasks that run, as far as that is written down: in a queue without limits a second after they began"`
}

// QueueKeys are the group keys of a queue, those with the most work first.
type QueueKeys struct {
	Items []QueueKey `json:"items" nullable:"false"`
	Cut   bool       `json:"cut" doc:"the queue has so much work that not all of it was looked at: numbers may be too small, and keys be left out"`
}
