package term

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// PaintedJob is the state's word in its colour.
func PaintedJob(s task.JobState) string {
	switch s {
	case task.JobRunning:
		return Green(string(s))
	case task.JobPending, task.JobFailed:
		return Red(string(s))
	}
	return Yellow(string(s))
}

// Labels are a worker's labels as k=v, sorted.
func Labels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, OneLine(k+"="+v))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// Days is a duration in days when it is a whole number of them.
func Days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d > day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
