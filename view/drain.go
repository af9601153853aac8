package view

// WorkerDrained answers a drain of a worker: what it costs, told before it is done.
type WorkerDrained struct {
	Name     string  `json:"name"`
	Draining bool    `json:"draining" doc:"it takes nothing new; false of a part, and of a dry run"`
	Shed     float64 `json:"shed,omitempty" doc:"units of its capacity that are to be free"`
	DrainBy  *Time   `json:"drain_by,omitempty" doc:"when what is left to give up is taken from it"`
	DryRun   bool    `json:"dry_run,omitempty" doc:"nothing was changed"`

	Moves   int      `json:"moves" doc:"replicas that move, on whichever workers"`
	Jobs    int      `json:"jobs" doc:"replicas that leave it"`
	Tasks   int      `json:"tasks" doc:"tasks in its hands that it is to finish first"`
	Minutes float64  `json:"minutes" doc:"until all that can leave has left, by the rounds of moves and by how long tasks of these queues ran lately"`
	Breaks  []string `json:"breaks" nullable:"false" doc:"groups of which replicas have no other place; without force it is refused with 409 then"`
	Add     string   `json:"add,omitempty" doc:"what would have to be added so that none lacks a place"`
	Effect  string   `json:"effect,omitempty" doc:"what it does to the groups that the worker serves, and to queues that nobody else serves: sentences"`
}
