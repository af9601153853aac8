package limits

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// Limits on what comes from outside; the API refuses what is beyond them.
const (
	MaxReports  = 10_000  // reports in one call
	MaxHold     = 1_000   // tasks in one answer to a hold
	MaxRunning  = 100_000 // tasks of a queue at a time, where it limits them
	MaxQueues   = 100     // queues in one hold
	MaxWait     = time.Minute
	MaxName     = 128 // characters
	MaxStage    = 256 // bytes, as of all free text
	MaxKey      = 256
	MaxTitle    = 256  // bytes, of an owner, too
	MaxError    = 4096 // longer error texts are cut
	MaxAttempts = 1_000_000
	MaxPriority = 365 * 24 * time.Hour
	MaxDuration = 100 * 365 * 24 * time.Hour
)

// Times outside these years are refused.
var (
	MinTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	MaxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// ValidName tells whether s may name a queue, schedule, group, job, worker, node, notifier, hook or
// calendar: at most MaxName characters, letters, marks and digits of any script and . - _ : @ +, of
// which the first is a letter, a digit or _. Characters that nobody sees are refused, since two
// names that look alike would be two things.
//
// Names are compared byte for byte. A server brings them to Unicode's normalization form C first,
// so that é is one name however it was typed; this function takes both spellings.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName*utf8.UTFMax {
		return false
	}
	n := 0
	for i, r := range s {
		n++
		if n > MaxName || !startsName(r) && (i == 0 || !continuesName(r)) {
			return false
		}
	}
	return true
}

// startsName tells whether a name may begin with r.
func startsName(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r == '_'
	}
	return unicode.In(r, unicode.L, unicode.Nd) && !unseen(r)
}

// continuesName tells whether r may stand in a name that it can't begin.
func continuesName(r rune) bool {
	switch r {
	case '.', '-', ':', '@', '+':
		return true
	}
	return r >= utf8.RuneSelf && unicode.Is(unicode.M, r) && !unseen(r)
}

// unseen tells whether r, though a letter or a mark, is not shown: fillers, joiners, selectors of
// variants.
func unseen(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// NameRule is what an error says about a name that is not valid.
const NameRule = "must be 1 to 128 letters, digits and marks of any script or . - _ : @ +, " +
	"and begin with a letter, a digit or _"

// ValidText tells whether s is printable UTF-8 of at most limit bytes.
func ValidText(s string, limit int) bool {
	if len(s) > limit || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// CheckSubmission adds to e all that is wrong with s, under location. The context's size is the
// queue's affair.
func CheckSubmission(s *task.Submission, e *task.InvalidError, location string) {
	if s.Orphan {
		e.Add(location+".orphan", "is for children: a task that nobody spawns has no parent")
	}
	checkSubmission(s, e, location)
}

// checkSubmission says what is wrong with a task to be, a child or not.
func checkSubmission(s *task.Submission, e *task.InvalidError, location string) {
	wrong := func(field, format string, args ...any) { e.Add(location+"."+field, format, args...) }
	if !ValidName(s.Queue) {
		wrong("queue", "%q %s", cut(s.Queue), NameRule)
	}
	if !ValidText(s.Stage, MaxStage) {
		wrong("stage", "must be at most %d bytes of printable UTF-8", MaxStage)
	}
	if !ValidText(s.Key, MaxKey) {
		wrong("key", "must be at most %d bytes of printable UTF-8", MaxKey)
	}
	if !ValidText(s.GroupKey, MaxKey) {
		wrong("group_key", "must be at most %d bytes of printable UTF-8", MaxKey)
	}
	if s.Priority < 0 || s.Priority > MaxPriority {
		wrong("priority", "must be 0s to %v", MaxPriority)
	}
	if s.Delay < 0 || s.Delay > MaxDuration {
		wrong("delay", "must be 0s to %v", MaxDuration)
	}
	if s.KeyFor < 0 || s.KeyFor > MaxDuration {
		wrong("key_for", "must be 0s to %v", MaxDuration)
	}
	if s.Timeout < 0 || s.Timeout > MaxDuration || s.Timeout > 0 && s.Timeout < time.Millisecond {
		wrong("timeout", "must be 1ms to %v, or 0s for the queue's", MaxDuration)
	}
	if !validStartWithin(s.StartWithin) {
		wrong("start_within", startWithinRule, MaxDuration)
	}
	if !s.Due.IsZero() && (s.Due.Before(MinTime) || !s.Due.Before(MaxTime)) {
		wrong("due", "must lie in the years 2000 to 2199")
	}
	if !s.Due.IsZero() && s.Delay != 0 {
		wrong("delay", "give due or delay, not both")
	}
	if s.KeyFor != 0 && s.Key == "" {
		wrong("key_for", "needs a key")
	}
	checkUnique(s, wrong)
	checkOthers(s, wrong)
	if s.Meta != nil {
		CheckMeta(s.Meta, e, location+".meta")
	}
	if s.MaxAttempts < 0 || s.MaxAttempts > MaxAttempts {
		wrong("max_attempts", "must be 1 to %d, or left out", MaxAttempts)
	}
}

// startWithinRule says what a start_within must be; it wants MaxDuration.
const startWithinRule = "must be 1ms to %v, or 0s for no limit"

func validStartWithin(d time.Duration) bool {
	return d == 0 || d >= time.Millisecond && d <= MaxDuration
}

// CheckOutcome says what is wrong with an outcome, or "" when nothing is.
func CheckOutcome(o *task.Outcome) string {
	switch {
	case !o.Kind.Reportable():
		return "outcome: must be done, next, retry, snooze, fail or release"
	case o.Kind == task.KindNext && o.Stage == "":
		return "stage: next needs the stage that follows"
	case o.Kind != task.KindNext && o.Stage != "":
		return "stage: only next names a stage"
	case !ValidText(o.Stage, MaxStage):
		return fmt.Sprintf("stage: must be at most %d bytes of printable UTF-8", MaxStage)
	case o.Delay < 0 || o.Delay > MaxDuration:
		return "delay: must be 0 to 100 years"
	case o.Delay != 0 && o.Kind != task.KindNext && o.Kind != task.KindRetry &&
		o.Kind != task.KindSnooze:
		return "delay: only next, retry and snooze take a delay"
	case o.Result != nil && o.Kind != task.KindDone && o.Kind != task.KindFail:
		return "result: only done and fail keep a result"
	case len(o.Spawn) > 0 && o.Kind != task.KindDone && o.Kind != task.KindNext:
		return "spawn: only done and next submit children"
	case len(o.Spawn) > task.MaxSubmissions:
		return fmt.Sprintf("spawn: %d tasks are too many: at most %d", len(o.Spawn),
			task.MaxSubmissions)
	case o.HoldKey != 0 && checkHoldKey(o) != "":
		return checkHoldKey(o)
	case o.Await != nil:
		return checkAwait(o)
	}
	return ""
}

// CheckReport says the first thing that is wrong with what a report says; "" = nothing.
func CheckReport(r *task.Report) string {
	switch {
	case r.Committed && r.Kind != task.KindDone && r.Kind != task.KindNext:
		return "committed: a transaction records done or next only"
	case r.Committed && r.Await != nil:
		return "committed: a transaction records no await"
	case r.Committed && len(r.Spawn) > 0:
		return "committed: a transaction submits no children"
	}
	return CheckOutcome(&r.Outcome)
}

// checkPeople adds to e what is wrong with a title and an owner.
func checkPeople(title, owner string, e *task.InvalidError, location string) {
	for _, text := range []struct{ field, text string }{{"title", title}, {"owner", owner}} {
		if !ValidText(text.text, MaxTitle) {
			e.Add(location+"."+text.field, "must be at most %d bytes of printable UTF-8", MaxTitle)
		}
	}
}

// CheckQueue adds to e all that is wrong with a queue's configuration, under location.
func CheckQueue(q *task.Queue, e *task.InvalidError, location string) {
	if !ValidName(q.Name) {
		e.Add(location+".queue", "%q %s", cut(q.Name), NameRule)
	}
	checkDuration(e, location+".timeout", q.Timeout, time.Millisecond, MaxDuration)
	checkDuration(e, location+".silence", q.Silence, time.Second, MaxDuration)
	checkDuration(e, location+".retry.initial", q.Retry.Initial, 0, MaxDuration)
	checkDuration(e, location+".retry.max", q.Retry.Max, 0, MaxDuration)
	checkDuration(e, location+".poll_interval", q.PollInterval, time.Millisecond, MaxDuration)
	checkDuration(e, location+".retention", q.Retention, 0, MaxDuration)
	checkDuration(e, location+".retention_dead", q.DeadKept, 0, MaxDuration)
	if !(q.Retry.Factor >= 1 && q.Retry.Factor <= 1000) {
		e.Add(location+".retry.factor", "must be 1 to 1000")
	}
	if !(q.Retry.Jitter >= 0 && q.Retry.Jitter <= 1) {
		e.Add(location+".retry.jitter", "must be 0 to 1")
	}
	if q.Retry.Max < q.Retry.Initial {
		e.Add(location+".retry.max", "must not be less than retry.initial")
	}
	if q.MaxAttempts < 1 || q.MaxAttempts > MaxAttempts {
		e.Add(location+".max_attempts", "must be 1 to %d", MaxAttempts)
	}
	if q.HoldLimit < 1 || q.HoldLimit > MaxHold {
		e.Add(location+".hold_limit", "must be 1 to %d", MaxHold)
	}
	switch {
	case q.FinalQueue == "":
	case !ValidName(q.FinalQueue):
		e.Add(location+".final_queue", "%q %s", cut(q.FinalQueue), NameRule)
	case q.FinalQueue == q.Name:
		e.Add(location+".final_queue",
			"must be another queue: a notice that dies would leave a notice")
	}
	if q.ContextLimit < 0 || q.ContextLimit > 32<<20 {
		e.Add(location+".context_limit", "must be 0 to 32 MiB")
	}
	checkPeople(q.Title, q.Owner, e, location)
	checkRates(q, e, location)
}

// checkRates adds to e what is wrong with the limits of what runs.
func checkRates(q *task.Queue, e *task.InvalidError, location string) {
	// those of a key are of the same shape
	own := task.KeyLimits{MaxRunning: q.MaxRunning, Rate: q.Rate, Burst: q.Burst}
	checkLimits(&own, e, location)
	checkLimits(&q.PerKey, e, location+".per_key")
	switch q.PerKey.OnDead {
	case "", task.OnDeadContinue:
	case task.OnDeadStop:
		if !q.PerKey.InOrder() {
			e.Add(location+".per_key.on_dead", "stop is for keys that go in order: give "+
				"max_running 1 too")
		}
	default:
		e.Add(location+".per_key.on_dead", "must be continue or stop")
	}
}

func checkLimits(l *task.KeyLimits, e *task.InvalidError, location string) {
	if l.MaxRunning < 0 || l.MaxRunning > MaxRunning {
		e.Add(location+".max_running", "must be 1 to %d, or 0 for no limit", MaxRunning)
	}
	if err := l.Rate.Check(); err != nil {
		e.Add(location+".rate", "%v", err)
	}
	switch {
	case l.Burst < 0 || l.Burst > task.MaxRateCount:
		e.Add(location+".burst", "must be 1 to %d, or 0 for the rate's count", task.MaxRateCount)
	case l.Burst > 0 && l.Rate == (task.Rate{}):
		e.Add(location+".burst", "is nothing without a rate: give one too, as 100/1s")
	}
}

func checkDuration(e *task.InvalidError, location string, d, low, high time.Duration) {
	if d < low || d > high {
		e.Add(location, "must be %v to %v", low, high)
	}
}

// cut is the beginning of a text, whole characters of it.
func cut(s string) string {
	n := 0
	for i := range s {
		if n == 40 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
