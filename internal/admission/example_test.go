package admission_test

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/task"
)

// Three at a time, two of which run; and ten a second.
func Example() {
	conf := task.Queue{MaxRunning: 3, Rate: task.Rate{Count: 10, Per: time.Second}}
	now := time.Now().UnixMicro()
	g := admission.Gate{
		Limits: admission.LimitsOf(&conf), Bucket: admission.Bucket{At: now}, Running: 2,
	}
	now += time.Second.Microseconds()
	fmt.Println(g.Admit(5, now), "of 5 begin, then", g.Held(now).Why)
	g.Running-- // one has ended
	fmt.Println(g.Admit(5, now), "begins")
	// Output:
	// 1 of 5 begin, then limit
	// 1 begins
}
