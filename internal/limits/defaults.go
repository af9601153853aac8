package limits

import (
	"time"

	"github.com/rotahq/rota/task"
)

// Defaults of a queue.
const (
	DefaultTimeout      = 10 * time.Minute
	DefaultSilence      = 15 * time.Second
	DefaultMaxAttempts  = 5
	DefaultHoldLimit    = 100
	DefaultPollInterval = 10 * time.Second
	DefaultContextLimit = 16 << 20
	DefaultRetention    = 7 * 24 * time.Hour
	DefaultDeadKept     = 30 * 24 * time.Hour
	DefaultKeyFor       = 7 * 24 * time.Hour
)

// DefaultBackoff waits 1, 2, 4, 8, 10, 10 … seconds, each up to a tenth longer or shorter.
var DefaultBackoff = task.Backoff{
	Initial: time.Second, Max: 10 * time.Second, Factor: 2, Jitter: 0.1,
}

// DefaultQueue is what a queue is before anybody configures it.
func DefaultQueue(name string) task.Queue {
	return task.Queue{
		Name: name, Timeout: DefaultTimeout, Silence: DefaultSilence,
		MaxAttempts: DefaultMaxAttempts, Retry: DefaultBackoff,
		HoldLimit: DefaultHoldLimit, PollInterval: DefaultPollInterval,
		ContextLimit: DefaultContextLimit,
		Retention:    DefaultRetention, DeadKept: DefaultDeadKept,
	}
}

// DefaultSourceEvery is how often a source is read unless its group says otherwise.
const DefaultSourceEvery = 30 * time.Minute

// DefaultGroup is what a group is before anybody configures it.
func DefaultGroup(name string) task.Group {
	return task.Group{
		Name: name, Replicas: 1, Spread: task.SpreadZone, Source: task.Source{
			Kind: task.SourceAPI, Every: DefaultSourceEvery,
		},
		Policy:  task.JobPolicy{Moves: 10, New: 4, Penalty: time.Minute, Warmup: 30 * time.Second},
		Silence: DefaultSilence,
	}
}

// DefaultSchedule is what a schedule is before anybody configures it. It lacks Queue, and Cron or
// what stands in its place.
func DefaultSchedule(name string) task.Schedule {
	return task.Schedule{
		Name: name, Overlap: task.OverlapAllow, Misfire: task.MisfireOnce,
		MisfireWindow: DefaultMisfireWindow,
		AfterMode:     task.AfterAll, AfterOn: task.AfterDone, OnDead: task.OnDeadContinue,
	}
}
