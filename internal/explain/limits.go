package explain

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// limited says so when as many tasks of a queue run as may.
func limited(q Queue) view.Reason {
	if !q.Gate.Full() {
		return view.Reason{}
	}
	most := q.Gate.Limits.Running
	text := fmt.Sprintf("%d of %d run: queue %s may run no more tasks at a time.", most, most,
		q.Name)
	if most == 1 {
		text = fmt.Sprintf("1 of 1 runs: queue %s may run no other task beside it.", q.Name)
	}
	return view.Reason{Kind: view.ReasonLimit, Text: text,
		Change: fmt.Sprintf("rota queue set %s --max-running N; 0 takes the limit away", q.Name)}
}

// tooFast says so when the next task of a queue may begin only later, by the queue's rate.
func tooFast(q Queue) view.Reason {
	next := q.Gate.Next(1, q.At)
	if next <= q.At {
		return view.Reason{}
	}
	rate := &q.Gate.Limits.Rate
	left := time.Duration(next-q.At) * time.Microsecond
	if left > time.Second {
		left = left.Round(time.Second)
	}
	of := " of queue " + q.Name
	begin := plural(rate.Count, "task"+of+" begins", "tasks"+of+" begin")
	return view.Reason{Kind: view.ReasonRate,
		Text:   fmt.Sprintf("At most %s in %v; the next one may in %v.", begin, rate.Per, left),
		Until:  view.Time{Time: time.UnixMicro(next).UTC()},
		Change: fmt.Sprintf("rota queue set %s --rate COUNT/TIME; 0 takes the limit away", q.Name)}
}

// starts reckons when a task begins: when the workers of its queue have begun all that comes
// before it, as many at a time and as fast as the queue's limits allow. Zero = nobody can say.
func starts(t Task, q Queue, s workers, now time.Time) view.Time {
	if t.State == task.Waiting {
		return view.Time{Time: t.Due}
	}
	places, free := s.places, s.free
	if most := q.Gate.Limits.Running; most > 0 {
		places, free = min(places, float64(most)), min(free, max(most-q.Gate.Running, 0))
	}
	at := now
	if left := t.Ahead.Tasks + 1 - int64(free); left > 0 { // that must end before
		if t.Usual == 0 || places < 1 {
			return view.Time{}
		}
		at = now.Add(time.Duration(float64(left) / places * float64(t.Usual)))
	}
	fast := q.Gate.Next(t.Ahead.Tasks+1, q.At)
	if fast > q.At && time.UnixMicro(fast).After(at) {
		at = time.UnixMicro(fast)
	}
	if t.Ahead.More && at.After(now) {
		return view.Time{} // nobody knows how many come first
	}
	return view.Time{Time: at}
}
