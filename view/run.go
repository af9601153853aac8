package view

import "github.com/rotahq/rota/task"

// FireKey says where a fire stands: of which schedule it is, and of which due time.
type FireKey struct {
	Schedule string `json:"schedule"`
	At       Time   `json:"at" nullable:"true"`
}

// ScheduleRun is a run: a fire of a schedule, and all that followed it.
type ScheduleRun struct {
	Schedule string    `json:"schedule" doc:"with whose fire it began"`
	At       Time      `json:"at" nullable:"true" doc:"the due time of that"`
	Fires    int       `json:"fires" doc:"how many are shown"`
	Whole    bool      `json:"whole" doc:"these are all; a run shows 500 at most"`
	Tree     []RunFire `json:"tree" nullable:"false" doc:"the fire with which it began; others stand beside it when what they followed is not kept any more"`
}

// RunFire is a fire of a run, how its task stands, and what follows it.
type RunFire struct {
	Schedule string           `json:"schedule"`
	At       Time             `json:"at" nullable:"true" doc:"the due time"`
	Origin   task.Origin      `json:"origin" enum:"schedule,manual,backfill,after,retry"`
	Outcome  task.FireOutcome `json:"outcome" enum:"fired,skipped,missed,queued"`
	Reason   string           `json:"reason" doc:"why it was not fired"`
	After    []FireKey        `json:"after" nullable:"false" doc:"the fires of which it is what follows; it stands below the last of them"`
	Task     TaskID           `json:"task" doc:"its id; empty = there is none"`
	State    task.State       `json:"state" doc:"of the task; empty = there is none, or it is kept no longer"`
	Ended    string           `json:"ended" doc:"how the task ended; empty = it is not final"`
	Fired    Time             `json:"fired" nullable:"true" doc:"when the row was written"`
	Began    Time             `json:"began" nullable:"true" doc:"when the first attempt began"`
	Finished Time             `json:"finished" nullable:"true" doc:"when the task became final"`
	Worker   string           `json:"worker"`
	Error    string           `json:"error" doc:"of the last attempt"`
	Children []RunFire        `json:"children" nullable:"false" doc:"what followed it"`
}
