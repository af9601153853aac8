package view

// QueueLimits says how a queue that has limits, or of whose group keys something is said, stands
// beside them.
type QueueLimits struct {
	Running    int        `json:"running" doc:"tasks that run, counted no further than max_running: what a dead node or an unheard worker has counts until it is lost"`
	FullKeys   int        `json:"full_keys" doc:"group keys of which as many tasks run as per_key.max_running allows, counted up to 1,000; 0 without such a limit"`
	WaitingFor WaitingFor `json:"waiting_for"`
}

// WaitingFor names the limits that hold ready tasks back. A queue without ready tasks waits for
// none.
type WaitingFor struct {
	MaxRunning  bool `json:"max_running" doc:"as many run as may"`
	Rate        bool `json:"rate" doc:"so many have begun that the next must wait"`
	KeysAtLimit int  `json:"keys_at_limit" doc:"group keys of which as many run as may, counted up to 1,000: what is ready of those waits, whatever workers are free"`
	PausedKeys  int  `json:"paused_keys" doc:"group keys that are paused, counted up to 1,000, whether or not they have ready tasks"`
}

// Any tells whether a limit holds ready tasks back.
func (w WaitingFor) Any() bool { return w != WaitingFor{} }
