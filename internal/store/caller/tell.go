package caller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
)

// CompareText orders values by how they are printed.
func CompareText(a, b any) int { return cmp.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)) }

// TellHistory says what is in periods in which anything happened; but not how many tasks there
// were, which is noted at times of the store's own.
func TellHistory(list []history.Period, samples bool) (text []string) {
	for i := range list {
		p := &list[i]
		if !samples {
			p.Ready, p.Running = 0, 0
		}
		if line := p.String(); line != "" {
			text = append(text, time.UnixMicro(p.At).UTC().Format("15:04")+" "+line)
		}
	}
	return text
}

// TellMinutes says what happened in the minutes of queues, sorted.
func TellMinutes(list []history.QueueMinute) (lines []string) {
	for i := range list {
		q := &list[i]
		q.Ready, q.Running = 0, 0
		if text := q.Record.String(); text != "" {
			at := time.Unix(60*q.Minute, 0).UTC().Format("15:04")
			lines = append(lines, fmt.Sprintf("%s %s: %s", at, q.Queue, text))
		}
	}
	slices.Sort(lines)
	return lines
}

// TellUses tells of the keys of a queue.
func TellUses(uses *store.KeyUses) string {
	var told []string
	for _, u := range uses.Keys {
		text := fmt.Sprintf("%s %d ready, %d run", u.Key, u.Ready, u.Running)
		if u.Paused != 0 {
			text += ", paused"
		}
		if u.Weight != 0 {
			text += fmt.Sprintf(", weighs %d", u.Weight)
		}
		told = append(told, text)
	}
	return strings.Join(told, "; ")
}
