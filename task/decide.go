package task

import (
	"math"
	"time"
)

// Defaults of a queue, as API.md states them.
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

// Backoff is how long a queue waits between attempts. The zero value waits nothing.
type Backoff struct {
	Initial time.Duration // before the second attempt
	Max     time.Duration // no delay is longer, jitter aside
	Factor  float64       // from one delay to the next; 1 = a fixed interval
	Jitter  float64       // share of the delay, 0 to 1, by which it may be longer or shorter
}

// DefaultBackoff waits 1, 2, 4, 8, 10, 10 … seconds, each up to a tenth longer or shorter.
var DefaultBackoff = Backoff{Initial: time.Second, Max: 10 * time.Second, Factor: 2, Jitter: 0.1}

// Delay is the wait after the failed attempt number attempt (from 1). Jitter is spread by seed, a
// hash of stored identities (see [ID.Seed]), so the same history always waits the same times.
func (r Backoff) Delay(attempt int, seed uint64) time.Duration {
	if r.Initial <= 0 {
		return 0
	}
	d := max(r.Max, 0)
	if grown := float64(r.Initial) * math.Pow(
		math.Max(r.Factor, 1), float64(max(attempt, 1)-1),
	); grown < float64(d) {
		d = time.Duration(grown)
	}
	if !(r.Jitter > 0) { // not a number included
		return d
	}
	spread := float64(d) * (1 + min(r.Jitter, 1)*(2*unit(seed)-1))
	if spread >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(spread)
}

// unit maps a hash to [0, 1).
func unit(seed uint64) float64 { return float64(mix(seed)>>11) / (1 << 53) }

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every
// output bit.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Seed is the hash that spreads what concerns hand-out seq of the task.
func (id ID) Seed(seq int32) uint64 {
	return mix(mix(uint64(id.Batch))^uint64(uint32(id.N))<<32) ^ uint64(uint32(seq))
}

// Rank is the order inside a queue, smallest first: the due time minus the priority, in
// microseconds.
func Rank(due int64, priority time.Duration) int64 { return due - priority.Microseconds() }

// RankAfter is the rank of a task after a step: a stage that has failed goes on at its due time,
// without the head start that its priority gives it; a new stage has that again. attempt is what is
// charged in the stage after the step.
func RankAfter(due int64, priority time.Duration, attempt int32) int64 {
	if attempt > 0 {
		return due
	}
	return Rank(due, priority)
}

// Standing is a task between two steps: all that a decision needs to know of its past.
type Standing struct {
	Stage   string
	Seq     int32 // where the outcome of the present (or next) hand-out will stand
	Attempt int32 // attempts charged in this stage so far
	Base    int32 // seq0 of the span that the task belongs to
}

// Limits is how often and how long a task may be tried.
type Limits struct {
	MaxAttempts int // per stage; at least 1
	Retry       Backoff
}

// Decision is what a step makes of a task: the columns of the step that are not simply the report.
type Decision struct {
	Final   State         // Done, Dead, Cancelled, or empty while the task goes on
	Stage   string        // the stage that follows; of a final step the stage it ended in
	Attempt int32         // attempts charged in that stage after this step
	Delay   time.Duration // until the task is due again, 0 = now
	Moved   bool          // the delay is long: the task moves into a span of its own
}

// LongDelay is the delay from which a task leaves its holder's memory for a span of its own.
const LongDelay = time.Minute

// Decide says what outcome o makes of a task. It is the only place where attempts are counted:
// retry, lost and timeout are charged, snooze and release are not, a new stage begins at none.
func Decide(id ID, s Standing, o Outcome, l Limits) Decision {
	d := Decision{Stage: s.Stage, Attempt: s.Attempt}
	switch o.Kind {
	case KindDone:
		d.Final, d.Attempt = Done, s.Attempt+1
	case KindFail:
		d.Final, d.Attempt = Dead, s.Attempt+1
	case KindCancelled:
		d.Final = Cancelled
	case KindNext:
		d.Stage, d.Attempt = o.Stage, 0
	case KindRetry, KindLost, KindTimeout:
		d.Attempt = s.Attempt + 1
		if int(d.Attempt) >= max(l.MaxAttempts, 1) {
			d.Final = Dead
			return d
		}
		if o.Kind != KindLost {
			// a worker's death is not the task's fault: it goes out again at once
			d.Delay = l.Retry.Delay(int(d.Attempt), id.Seed(s.Seq))
		}
		if o.Kind == KindRetry && o.Delay > 0 {
			d.Delay = o.Delay
		}
	case KindSnooze:
		d.Delay = max(o.Delay, 0)
	case KindReplayed:
		d.Attempt, d.Moved = 0, true
	case KindMoved:
		d.Moved = true
	}
	d.Moved = d.Moved || d.Delay > LongDelay
	return d
}
