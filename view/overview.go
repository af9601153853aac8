package view

import "github.com/rotahq/rota/task"

// Overview is how everything stands: the sums, and of each kind of thing the part that matters
// most. Lists have all of it.
type Overview struct {
	At      Time     `json:"at" doc:"when what is oldest in it was read"`
	Age     Duration `json:"age" doc:"how old that was when this was written: 0s while it is younger than 3 s, as it is unless the store or the other nodes are slow or silent"`
	Node    string   `json:"node" doc:"that answers"`
	Version string   `json:"version" doc:"of its program"`

	OldestReady *OldestReady `json:"oldest_ready" doc:"the queue whose oldest ready task has been due for the longest; null = no task is ready"`
	Ready       int64        `json:"ready" doc:"tasks that a worker may take"`
	Waiting     int64        `json:"waiting" doc:"tasks that are due later"`
	Blocked     int64        `json:"blocked" doc:"tasks that wait for a signal, their children or other tasks"`
	Running     int64        `json:"running" doc:"tasks in workers' hands"`
	Capacity    float64      `json:"capacity" doc:"of all workers that are not silent; a task costs 1"`
	DeadHour    int64        `json:"dead_hour" doc:"tasks that died in the last 60 minutes"`
	Totals      Totals       `json:"totals"`

	Nodes        []OverviewNode `json:"nodes" nullable:"false" doc:"by name, at most 200; also those that are gone, for a day"`
	NodesLeftOut int            `json:"nodes_left_out" doc:"how many more there are"`
	Missing      []string       `json:"missing" nullable:"false" doc:"nodes that did not say which workers they have"`
	Workers      WorkerStates   `json:"workers"`
	Fleet        []FleetWorker  `json:"fleet" nullable:"false" doc:"workers by node and name, at most 500: those that are silent or drain before others; those that left are none"`
	FleetLeftOut int            `json:"fleet_left_out" doc:"how many more there are"`

	Schedules     ScheduleStates `json:"schedules"`
	Jobs          ReplicaStates  `json:"jobs"`
	Budget        *int           `json:"budget" nullable:"true" doc:"so many nodes, whichever they are, can die at once with every key still ownable; null = not known"`
	BudgetWorkers *int           `json:"budget_workers" nullable:"true" doc:"so many workers, whichever they are, can die with every replica still placeable; null = there are no replicas, or it is not known"`

	Queues        []OverviewQueue `json:"queues" nullable:"false" doc:"at most 200: those whose oldest ready task has been due for the longest first, then those with most unfinished tasks"`
	QueuesLeftOut int             `json:"queues_left_out" doc:"how many more there are"`
}

// OldestReady is the task that has been ready for the longest.
type OldestReady struct {
	Queue string   `json:"queue"`
	Age   Duration `json:"age" doc:"how long it has been due. A task that was handed out less than a second ago may count as ready"`
}

// Totals are sums that only grow, as long as the same node answers that tells them since the same
// time: their differences say what happened between two answers.
type Totals struct {
	Since     Time  `json:"since" doc:"what happened before is not in them; another time than before: begin anew"`
	Submitted int64 `json:"submitted"`
	Started   int64 `json:"started" doc:"attempts, counted when they end"`
	Done      int64 `json:"done"`
	Retried   int64 `json:"retried" doc:"attempts that another one follows"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired" doc:"tasks that nobody had begun in time"`
	Lost      int64 `json:"lost" doc:"attempts whose worker was lost"`
}

// OverviewNode is a node in an overview.
type OverviewNode struct {
	Name    string     `json:"name"`
	State   NodeState  `json:"state" enum:"working,draining,drained,unreachable,offline,left"`
	Score   float64    `json:"score" doc:"how busy it is: 0 idle to 100"`
	CPU     float64    `json:"cpu" doc:"in use, as a share of the maximum"`
	Memory  float64    `json:"memory" doc:"in use, as a share of the maximum"`
	Tasks   int        `json:"tasks" doc:"that it holds, waiting or in workers' hands"`
	Claims  NodeClaims `json:"claims" doc:"keys that it looks after"`
	Strikes int        `json:"strikes" doc:"nodes that did not reach it"`
	Down    Time       `json:"down" nullable:"true" doc:"when it ended, or was found gone; null while it lives"`
}

// WorkerStates counts workers by their state.
type WorkerStates struct {
	Active   int `json:"active"`
	Draining int `json:"draining" doc:"take nothing new"`
	Silent   int `json:"silent" doc:"not heard of for longer than the limit"`
}

// FleetWorker is a worker in an overview.
type FleetWorker struct {
	Worker   string           `json:"worker"`
	Node     string           `json:"node" doc:"the node it talks to"`
	State    task.WorkerState `json:"state" enum:"active,draining,silent"`
	Capacity float64          `json:"capacity" doc:"units of load it may carry; a task costs 1"`
	Running  int              `json:"running" doc:"tasks in its hands"`
	Jobs     int              `json:"jobs" doc:"replicas of jobs that it runs"`
}

// ScheduleStates counts schedules.
type ScheduleStates struct {
	Total  int64 `json:"total"`
	Late   int64 `json:"late" doc:"not paused, and a due time passed more than 10 s ago that was not handled"`
	Paused int64 `json:"paused"`
}

// ReplicaStates counts replicas of jobs.
type ReplicaStates struct {
	Wanted   int `json:"wanted"`
	Running  int `json:"running"`
	Starting int `json:"starting"`
	Failed   int `json:"failed" doc:"their worker says that they do not run"`
	Pending  int `json:"pending" doc:"they have no worker"`
}

// OverviewQueue is a queue in an overview.
type OverviewQueue struct {
	Queue       string    `json:"queue"`
	Ready       int64     `json:"ready"`
	Waiting     int64     `json:"waiting"`
	Blocked     int64     `json:"blocked" doc:"wait for a signal, their children or other tasks"`
	Running     int64     `json:"running"`
	OldestReady *Duration `json:"oldest_ready" nullable:"true" doc:"how long its oldest ready task has been due; null = none is ready"`
	Paused      bool      `json:"paused" doc:"nothing is handed out"`
	Limited     bool      `json:"limited" doc:"a limit of the queue holds ready tasks back"`
	Submitted   int64     `json:"submitted" doc:"as totals, of this queue"`
	Done        int64     `json:"done"`
	Dead        int64     `json:"dead"`
}
