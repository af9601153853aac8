package forecast

import "time"

// Seen is what a node knows of all queues and groups at a moment. It is only read.
type Seen struct {
	At      time.Time // by the store's clock
	Keep    int       // n, of Groups
	Model   *Model
	Groups  []GroupNeed // by name
	Missing []string    // nodes that did not say which workers they have
}
