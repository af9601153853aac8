package queues

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// Word says whether a queue hands out.
func Word(q *client.Queue) string {
	switch {
	case q.Paused:
		return "paused"
	case q.Limits != nil && q.Limits.WaitingFor.Any():
		return "limited"
	}
	return "open"
}

// painted is the Word of a queue in its colour.
func painted(q *client.Queue) string {
	word := Word(q)
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
		s.Line("burst", fmt.Sprint(burst(q.Rate, q.Burst)))
	}
	if most := q.PerKey.MaxRunning; most > 0 {
		s.Line("key-max-running", fmt.Sprint(most))
	}
	if q.PerKey.InOrder() {
		s.Line("key-on-dead", string(cmp.Or(q.PerKey.OnDead, task.OnDeadContinue)))
	}
	if p := &q.PerKey; p.Rate != (task.Rate{}) {
		s.Line("key-rate", p.Rate.String())
		s.Line("key-burst", fmt.Sprint(burst(p.Rate, p.Burst)))
	}
	if q.Fair {
		s.Line("fair", "true")
	}
}

// burst is how many tasks may begin at once after a rest, where there is a rate.
func burst(r task.Rate, own int) int64 {
	if own > 0 {
		return int64(own)
	}
	return r.Count
}

// LimitsText says which limits a queue has, and how it stands beside them.
func LimitsText(q *client.Queue) string {
	var all []string
	if q.MaxRunning > 0 {
		text := fmt.Sprintf("at most %d run at a time", q.MaxRunning)
		if q.Limits != nil {
			text += fmt.Sprintf(", and %d do", q.Limits.Running)
		}
		all = append(all, text)
	}
	if q.Rate != (task.Rate{}) {
		all = append(all, rateText(q.Rate, q.Burst))
	}
	var each []string
	switch p := &q.PerKey; {
	case p.InOrder() && p.OnDead == task.OnDeadStop:
		each = append(each, "tasks go one after another, and none behind a dead one")
	case p.InOrder():
		each = append(each, "tasks go one after another")
	case p.MaxRunning > 0:
		each = append(each, fmt.Sprintf("at most %d run at a time", p.MaxRunning))
	}
	if p := &q.PerKey; p.Rate != (task.Rate{}) {
		each = append(each, rateText(p.Rate, p.Burst))
	}
	if len(each) > 0 {
		all = append(all, "of each group key "+strings.Join(each, ", and "))
	}
	if q.Fair {
		all = append(all, "group keys take turns")
	}
	return strings.Join(all, "; ")
}

func rateText(r task.Rate, own int) string {
	return fmt.Sprintf("at most %d in %v begin, %d at once after a rest", r.Count, r.Per,
		burst(r, own))
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
	if n := q.Limits.WaitingFor.KeysAtLimit; n > 0 {
		text := fmt.Sprintf("%d group keys run as many as each may", n)
		if n == 1 {
			text = "1 group key runs as many as it may"
		}
		all = append(all, fmt.Sprintf("key-max-running: %s, %d", text, q.PerKey.MaxRunning))
	}
	switch n := q.Limits.WaitingFor.PausedKeys; n {
	case 0:
	case 1:
		all = append(all, "1 group key is paused")
	default:
		all = append(all, fmt.Sprintf("%d group keys are paused", n))
	}
	return strings.Join(all, "; ")
}
