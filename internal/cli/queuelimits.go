package cli

import (
	"fmt"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/pflag"
)

// rateFlag adds the flag --rate.
func rateFlag(f *pflag.FlagSet) *task.Rate {
	rate := new(task.Rate)
	f.TextVar(rate, "rate", task.Rate{},
		"how fast tasks begin, `count/time`, as 100/1s or 5/1m; 0 = any speed, and no burst (default 0)")
	return rate
}

// queueWord says whether a queue hands out.
func queueWord(q *client.Queue) string {
	switch {
	case q.Paused:
		return "paused"
	case q.Limits != nil && q.Limits.WaitingFor.Any():
		return "limited"
	}
	return "open"
}

// queueState is queueWord in its colour.
func queueState(q *client.Queue) string {
	word := queueWord(q)
	if word == "open" {
		return term.Green(word)
	}
	return term.Yellow(word)
}

// limitLines adds the limits that a queue has, as the flags that set them.
func limitLines(s *term.Sheet, q *client.Queue) {
	if q.MaxRunning > 0 {
		s.Line("max-running", fmt.Sprint(q.MaxRunning))
	}
	if q.Rate != (task.Rate{}) {
		s.Line("rate", q.Rate.String())
		s.Line("burst", fmt.Sprint(burst(q)))
	}
}

// burst is how many tasks may begin at once after a rest, where there is a rate.
func burst(q *client.Queue) int64 {
	if q.Burst > 0 {
		return int64(q.Burst)
	}
	return q.Rate.Count
}

// limitsText says which limits a queue has, and how it stands beside them.
func limitsText(q *client.Queue) string {
	var all []string
	if q.MaxRunning > 0 {
		text := fmt.Sprintf("at most %d run at a time", q.MaxRunning)
		if q.Limits != nil {
			text += fmt.Sprintf(", and %d do", q.Limits.Running)
		}
		all = append(all, text)
	}
	if q.Rate != (task.Rate{}) {
		all = append(all, fmt.Sprintf("at most %d in %v begin, %d at once after a rest", q.Rate.Count,
			q.Rate.Per, burst(q)))
	}
	return strings.Join(all, "; ")
}

// heldText says which limits hold ready tasks of a queue back; none is "".
func heldText(q *client.Queue) string {
	if q.Limits == nil {
		return ""
	}
	var all []string
	if q.Limits.WaitingFor.MaxRunning {
		all = append(all, fmt.Sprintf("max-running: %d of %d run", q.Limits.Running, q.MaxRunning))
	}
	if q.Limits.WaitingFor.Rate {
		all = append(all, fmt.Sprintf("rate: at most %d in %v begin", q.Rate.Count, q.Rate.Per))
	}
	return strings.Join(all, "; ")
}
