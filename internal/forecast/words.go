package forecast

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// why says in a sentence where the numbers of a need come from.
func (m *Model) why(n *Need, i int, each float64, ask Ask) string {
	q, p := &m.queues[i], &m.pools[i]
	switch {
	case q.Paused:
		return "it is paused: nothing is handed out"
	case len(q.Record.Arrived) == 0 && q.Ready == 0 && q.Running == 0:
		return "nothing came in the last hour"
	case len(q.Record.Arrived) == 0 && q.Ready == 0:
		return "nothing new came in the last hour; what runs goes on"
	case !q.comes():
		return "nothing of it may begin: " + q.heldBack()
	case p.workers == 0:
		return "no worker takes its tasks; how many it needs is known once one does"
	case q.Record.Runs == 0:
		return "none of its tasks has ended in the last hour, so nobody knows how long they run"
	case p.slots == 0:
		return "its workers have no room for tasks beside their jobs"
	}
	parts := []string{m.comes(q, p, i, ask)}
	c, now := float64(n.Wanted)*each, p.all.lately()
	keys := q.Keys.FullSlots > 0 // some have more to do than they may soon
	late := p.all.backlog > p.slots*ask.Target.Seconds() && (p.all.ready > p.slots-now || keys)
	if late {
		takes := math.Max(p.all.backlog/math.Min(p.slots, p.useful), q.Keys.Longest)
		parts = append(parts, fmt.Sprintf("%s, which take %s with the workers that there are",
			are(q.Ready-q.Keys.Held), lasts(takes)))
	}
	if q.Keys.Held > 0 {
		parts = append(parts, q.heldBack())
	}
	switch limit := q.limit(); {
	case limit != "" && (q.limited() || late && c >= p.useful && p.useful == q.useful()):
		parts = append(parts, limit+noUse)
	case keys && q.full() && !p.shared:
		parts = append(parts, fmt.Sprintf("its keys let %s run", number(q.keySlots()))+noUse)
	case keys && (late || q.through() < 1):
		parts = append(parts, "some of its keys have more to do than they may at a time")
	}
	if q.Keys.Cut {
		parts = append(parts, "not all of its keys were looked at")
	}
	does := "keep"
	if late && !keys && p.all.ready > c-now && p.all.backlog > c*ask.Target.Seconds() {
		does = fmt.Sprintf("work that off in %s, then keep",
			lasts(p.all.backlog/(math.Min(c, p.useful)-now)))
	}
	if n.Wanted == 1 {
		does = strings.NewReplacer("keep", "keeps", "work", "works").Replace(does)
	}
	return strings.Join(append(parts, fmt.Sprintf("%s of %s %s 95 %% of the waits below %s",
		plural(int64(n.Wanted), "worker"), slots(each), does, trimmed(ask.Target))), "; ")
}

// noUse is what follows from a limit.
const noUse = ": more workers are of no use"

// heldBack says how much is ready of keys of which nothing begins.
func (q *Queue) heldBack() string {
	if q.Keys.Held == 1 {
		return "1 ready task is of a key that is paused, or whose task in front failed or waits"
	}
	return thousands(q.Keys.Held) + " ready tasks are of keys that are paused, or whose task in front failed or waits"
}

// comes says what comes to a queue and its workers.
func (m *Model) comes(q *Queue, p *pool, i int, ask Ask) string {
	rate := q.Record.perMinute()
	text := fmt.Sprintf("%s tasks a minute", number(rate))
	if rate == 0 {
		text = "lately no tasks"
	}
	own := rate / 60 * q.Record.Mean
	text += fmt.Sprintf(" of %s each, %s busy", lasts(q.Record.Mean), slots(own))
	if !p.shared {
		return text
	}
	return fmt.Sprintf("%s, %s with those of %s on the same workers", text, number(p.all.lately()),
		named(m.beside(i, ask)))
}

// most is how many queues a sentence names.
const most = 3

// beside are the queues whose tasks come to the workers of a queue, too; of more than a sentence
// names only one more. Those that the asker must not know of are all called others.
func (m *Model) beside(i int, ask Ask) (others []string) {
	for _, k := range m.pools[i].sets {
		for _, j := range m.sets[k].queues {
			name := m.queues[j].Name
			if ask.See != nil && !ask.See(name) {
				name = "others"
			}
			if j == i || m.pools[j].own.seconds == 0 || slices.Contains(others, name) {
				continue
			}
			if others = append(others, name); len(others) > most {
				return others
			}
		}
	}
	return others
}

func named(names []string) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and more"
	}
	return strings.Join(names, ", ")
}

// limit names the limit of the queue that lets the fewest slots be used; "" = it has none.
func (q *Queue) limit() string {
	running := float64(q.MaxRunning)
	switch rate := speed(q.Rate) * q.Record.Mean; {
	case q.Rate.Count > 0 && (q.MaxRunning == 0 || rate < running):
		return fmt.Sprintf("its rate is %v", q.Rate)
	case q.MaxRunning > 0:
		return fmt.Sprintf("max_running is %d", q.MaxRunning)
	}
	return ""
}

func are(ready int64) string {
	if ready == 1 {
		return "1 is ready"
	}
	return thousands(ready) + " are ready"
}

func slots(n float64) string {
	if text := number(n); text != "1" {
		return text + " slots"
	}
	return "1 slot"
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + one + "s"
}

// number writes two digits of small numbers, and whole large ones.
func number(x float64) string {
	if x >= 10 || x == math.Trunc(x) {
		return thousands(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// lasts is a number of seconds as a sentence has it.
func lasts(seconds float64) string {
	d := Short(seconds)
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	return trimmed(d)
}

// trimmed is a duration without the zeros at its end.
func trimmed(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Short is a number of seconds as a duration of two digits.
func Short(seconds float64) time.Duration {
	d := durationOf(seconds)
	to := time.Duration(1)
	for d/to >= 100 {
		to *= 10
	}
	return d.Round(to)
}

// durationOf is a number of seconds as a duration, the longest one where that is shorter. No work
// on no slots, which is no number, takes no time.
func durationOf(seconds float64) time.Duration {
	switch ns := seconds * float64(time.Second); {
	case math.IsNaN(ns):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(ns)
	}
}
