package view

// Period is what happened in a period of time: in a queue, in a stage of a queue, at a worker, or
// in the whole store. What was counted stays counted when its task is deleted or begins again.
type Period struct {
	At        Time  `json:"at" doc:"when the period begins; it lasts for the step that was asked for"`
	Submitted int64 `json:"submitted" doc:"tasks that were submitted; of a stage: that came into it"`
	Started   int64 `json:"started" doc:"hand-outs, each once its outcome is known"`
	Done      int64 `json:"done" doc:"tasks that were done; of a stage and of a worker: also those that went on to a next stage"`
	Retried   int64 `json:"retried" doc:"outcomes that another attempt in the same stage follows"`
	Dead      int64 `json:"dead" doc:"tasks that died"`
	Cancelled int64 `json:"cancelled" doc:"tasks that were cancelled"`
	Expired   int64 `json:"expired" doc:"tasks that nobody had begun in time"`
	Lost      int64 `json:"lost" doc:"hand-outs whose worker fell silent; they count among retried or dead, too"`
	Passed    int64 `json:"passed" doc:"tasks that went on to a next stage; of a stage and of a worker they are among done, too"`
	Snoozed   int64 `json:"snoozed" doc:"outcomes that let the same stage be tried again later, uncharged; they count among retried, too"`
	TimedOut  int64 `json:"timed_out" doc:"attempts that passed their limit; they count among retried or dead, too"`
	Released  int64 `json:"released" doc:"hand-outs that came back unrun"`
	Woken     int64 `json:"woken" doc:"blocked tasks of which what they waited for came, or the time for it was over"`

	Ready   *int64 `json:"ready,omitempty" doc:"tasks that were ready when it was last looked, which is once a minute; left out where nobody looked, and of stages and workers"`
	Running *int64 `json:"running,omitempty" doc:"tasks that were running then"`

	Wait *Percentiles `json:"wait,omitempty" doc:"how long tasks were ready before a worker got them; left out when none was handed out"`
	Run  *Percentiles `json:"run,omitempty" doc:"how long workers had them, of attempts that a worker reported; left out when there were none"`
}

// Percentiles are the durations that half, 95 and 99 percent of some do not exceed. Each is exact
// to within 3.2 percent.
type Percentiles struct {
	P50 Duration `json:"p50"`
	P95 Duration `json:"p95"`
	P99 Duration `json:"p99"`
}
