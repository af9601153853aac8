//go:build unix && !linux

package pgtest

import "time"

// CPUTime is known on Linux only.
func (c *Cluster) CPUTime() (time.Duration, error) { return 0, nil }
