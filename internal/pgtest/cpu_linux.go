package pgtest

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat: USER_HZ, 100 a second on every platform that Go runs on.
const tick = 10 * time.Millisecond

// CPUTime is what the server's processes have used of all cores, those that ended included.
func (c *Cluster) CPUTime() (sum time.Duration, err error) {
	family, err := c.family()
	for _, pid := range family {
		b, e := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if e != nil {
			continue // it ended just now: from here on the first one's record has it
		}
		_, rest, _ := strings.Cut(string(b), ") ") // the name before it may have spaces
		var user, system, childUser, childSystem int64
		var skip string
		if _, e := fmt.Sscan(rest, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip,
			&skip, &skip, &user, &system, &childUser, &childSystem); e != nil {
			return 0, fmt.Errorf("read /proc/%d/stat: %w", pid, e)
		}
		sum += time.Duration(user+system) * tick
		if pid == family[0] {
			sum += time.Duration(childUser+childSystem) * tick
		}
	}
	return sum, err
}
