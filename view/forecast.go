package view

// Forecast is how many workers queues and groups need, by what the last hour was like.
type Forecast struct {
	At            Time            `json:"at" doc:"when it was gathered, at most some ten seconds ago"`
	Wait          Duration        `json:"wait" doc:"the wait that 95 of 100 tasks are to stay below"`
	Queues        []QueueForecast `json:"queues" nullable:"false" doc:"at most 1,000: those that need the most more workers first, then by name"`
	QueuesLeftOut int             `json:"queues_left_out" doc:"how many more there are"`
	Groups        []GroupForecast `json:"groups" nullable:"false" doc:"at most 1,000, in the same order"`
	GroupsLeftOut int             `json:"groups_left_out" doc:"how many more there are"`
	Missing       []string        `json:"missing" nullable:"false" doc:"nodes that did not say which workers they have: there may be more than is said here"`
}

// QueueForecast is how many workers a queue needs.
type QueueForecast struct {
	Queue   string    `json:"queue"`
	Workers int       `json:"workers" doc:"that take its tasks now, and do not drain"`
	Wanted  int       `json:"wanted" doc:"the least number of such workers with which the wait is kept; where known is false what one can be sure of"`
	Known   bool      `json:"known" doc:"wanted follows from what the last hour was like"`
	WaitP95 *Duration `json:"wait_p95" nullable:"true" doc:"the wait that 95 of 100 tasks do not exceed with the workers that there are; null = it is not known, or grows without end"`
	Slots   int       `json:"slots" doc:"tasks that its workers run at a time, all together; other queues may use them, too"`
	Busy    float64   `json:"busy" doc:"of these, how many its tasks kept busy in the last ten minutes, or would have"`
	Why     string    `json:"why" doc:"a sentence"`
}

// GroupForecast is how many workers a group of jobs needs.
type GroupForecast struct {
	Group   string `json:"group"`
	Workers int    `json:"workers" doc:"that may run its jobs, and do not drain"`
	Wanted  int    `json:"wanted" doc:"so that any n workers can die at once with a place left for every replica; it is never told that fewer would do"`
	By      *Time  `json:"by,omitempty" doc:"when they are needed; left out = now, or no more are"`
	Why     string `json:"why" doc:"a sentence"`
}
