package chaos

import (
	"hash/crc32"
	"time"

	"github.com/rotahq/rota/task"
)

// order is a task's context.
type order struct {
	Mark string
	Work work
	Pad  string `json:",omitempty"`
}

// work is what a handler does with a task.
type work string

const (
	quick   work = "quick"  // at once, or nearly so
	steady  work = "steady" // for 100 to 500 ms
	lengthy work = "long"   // 2 to 5 seconds
	stages  work = "stages" // three of them
	flaky   work = "flaky"  // two failures before
	snooze  work = "snooze" // not now
	fails   work = "fails"  // for good

	families work = "families" // children, and another stage when they are over
	waits    work = "waits"    // for a signal
)

// asked is what is written down before the task is submitted.
func (o *order) asked(who string, context []byte) line {
	want := task.Done
	if o.Work == fails {
		want = task.Dead
	}
	return line{
		Deed: asked, Mark: o.Mark, At: nowMicros(), Who: who, Want: want, Work: o.Work,
		Sum: crc32.ChecksumIEEE(context),
	}
}

func nowMicros() int64 { return time.Now().UnixMicro() }

// Workers of the library take from the first two queues and from those with limits, commands from
// the third.
const (
	queueShort   = "short"
	queueLong    = "long"
	queueCommand = "command"
)
