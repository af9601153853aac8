package limits

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

// Limits of what is said of single group keys of a queue.
const (
	MinKeyPause = time.Millisecond
	MaxHoldKey  = 24 * time.Hour // by a report
	MaxWeight   = 1000
)

// CheckKey adds to e what is wrong with what is to be said of a group key: how long it pauses, 0 =
// nothing or for good, and the weight of its turn, 0 = none.
func CheckKey(key string, pause time.Duration, weight int, e *task.InvalidError) {
	if key == "" || !ValidText(key, MaxKey) {
		e.Add("path.key", "must be 1 to %d bytes of printable UTF-8", MaxKey)
	}
	if pause != 0 && (pause < MinKeyPause || pause > MaxDuration) {
		e.Add("body.for", "must be 1ms to 100 years, or left out: until the key is resumed")
	}
	if weight < 0 || weight > MaxWeight {
		e.Add("body.weight", "must be 1 to %d, or null", MaxWeight)
	}
}

// checkHoldKey says what is wrong with the pause of its key that an outcome asks for, or "" when
// nothing is.
func checkHoldKey(o *task.Outcome) string {
	switch {
	case o.Kind != task.KindRetry:
		return "hold_key: goes with retry only"
	case o.HoldKey < MinKeyPause || o.HoldKey > MaxHoldKey:
		return fmt.Sprintf("hold_key: must be 1ms to %v", MaxHoldKey)
	}
	return ""
}
