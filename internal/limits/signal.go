package limits

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

// Limits of signals.
const (
	MaxPayload  = 64 << 10 // bytes
	DefaultKeep = 24 * time.Hour
	MinKeep     = time.Second
)

// checkAwait says what is wrong with what an outcome waits for, or "" when nothing is.
func checkAwait(o *task.Outcome) string {
	a := o.Await
	switch {
	case o.Kind != task.KindNext:
		return "await: only next waits"
	case o.Delay != 0:
		return "await: give await or delay, not both"
	case a.Children != "" && a.Signal != "":
		return "await: give signal or children, not both"
	case a.Children != "" && a.Key != "":
		return "await.key: is for signals"
	case a.Children != "" && a.Children != task.AllChildren && a.Children != task.FirstDead:
		return "await.children: must be all or first_dead"
	case a.Children == "" && !ValidName(a.Signal):
		return fmt.Sprintf("await.signal: %q %s", cut(a.Signal), NameRule)
	case !ValidText(a.Key, MaxKey):
		return fmt.Sprintf("await.key: must be at most %d bytes of printable UTF-8", MaxKey)
	case a.Timeout < 0 || a.Timeout > MaxDuration ||
		a.Timeout > 0 && a.Timeout < time.Millisecond:
		return "await.timeout: must be 1ms to 100 years, or left out"
	case !ValidText(a.Else, MaxStage):
		return fmt.Sprintf("await.else: must be at most %d bytes of printable UTF-8", MaxStage)
	case a.Else != "" && a.Timeout == 0:
		return "await.else: is for when the time is over: give a timeout, too"
	}
	return ""
}

// CheckSignal adds to e what is wrong with a signal, under location. That its payload is JSON is
// the decoder's affair.
func CheckSignal(s *task.SignalRequest, e *task.InvalidError, location string) {
	keyed := s.Task == (task.ID{})
	wrong := func(field, format string, args ...any) { e.Add(location+"."+field, format, args...) }
	if !ValidName(s.Name) {
		wrong("name", "%q %s", cut(s.Name), NameRule)
	}
	switch {
	case keyed && s.Key == "":
		wrong("key", "is needed: what the waiting task names as await.key")
	case !ValidText(s.Key, MaxKey):
		wrong("key", "must be at most %d bytes of printable UTF-8", MaxKey)
	}
	if len(s.Payload) > MaxPayload {
		wrong("payload", "%d bytes are more than the %d that a signal may carry", len(s.Payload),
			MaxPayload)
	}
	switch {
	case !keyed && s.Keep != 0:
		wrong("keep", "a signal to a task stands as long as the task does")
	case keyed && s.Keep != 0 && (s.Keep < MinKeep || s.Keep > MaxDuration):
		wrong("keep", "must be 1s to %v", MaxDuration)
	}
}
