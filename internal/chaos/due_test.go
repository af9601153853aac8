package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// dues is all that is known of one schedule: what it was, and what came of its due times.
type dues struct {
	name string
	eras []dueEra
	rows []dueRow
}

// dueEra is a time during which a schedule was due at the multiples of some seconds: after since,
// up to and with until.
type dueEra struct {
	since, until int64
	seconds      int64
	paused       bool
}

// dueRow is what came of a due time.
type dueRow struct {
	at, time int64
	shared   bool // it stands for others, too
	origin   task.Origin
	outcome  task.FireOutcome
	reason   string
	task     task.ID
	node     string
}

// dueVerdict is what judgeDues found.
type dueVerdict struct {
	eras, fired, skipped, manual, followed int
	// of those that were fired at their due times, in microseconds
	late  []int64
	nodes map[string]int
	wrong []string
}

func (v *dueVerdict) String() string {
	slices.Sort(v.late)
	late := func(share float64) time.Duration {
		if len(v.late) == 0 {
			return 0
		}
		return time.Duration(v.late[int(share*float64(len(v.late)-1))]) * time.Microsecond
	}
	return fmt.Sprintf("%d versions, %d due times fired, %d skipped, %d runs by hand, %d by following; late p50 %v, p99 %v, at most %v; by %v",
		v.eras, v.fired, v.skipped, v.manual, v.followed, late(0.5), late(0.99), late(1), v.nodes)
}

// judgeDues compares the rows of schedules with the multiples of seconds at which they were due,
// and with the tasks that there are. Of one of them, the leader, another, the follower, has a row
// wherever it was fired: all tasks end well.
func judgeDues(
	stories map[string]*dues, leader, follower string, tasks map[task.ID]bool,
) *dueVerdict {
	v := &dueVerdict{nodes: map[string]int{}}
	owner := map[task.ID]string{}
	led := map[int64]bool{} // where the leader was fired, and the follower was not
	for _, f := range fired(stories[leader]) {
		led[f.at] = true
	}
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		s := stories[name]
		v.eras += len(s.eras)
		demanded := s.demanded()
		for _, f := range s.rows {
			what := fmt.Sprintf("%s at %s", name,
				time.UnixMicro(f.at).UTC().Format("15:04:05.000000"))
			if f.outcome == task.FireFired {
				v.nodes[f.node]++
				if owner[f.task] != "" || !tasks[f.task] {
					v.wrongly("%s: its task %v is that of %q, too, or is not there", what, f.task,
						owner[f.task])
				}
				owner[f.task] = what
			}
			switch f.origin {
			case task.OriginManual:
				v.manual++
			case task.OriginAfter:
				v.followed++
				if name != follower || !led[f.at] {
					v.wrongly("%s: it followed nothing", what)
				}
				delete(led, f.at)
			default:
				paused, due := demanded[f.at]
				delete(demanded, f.at)
				v.judge(&f, what, due, paused)
			}
		}
		for at := range demanded {
			v.wrongly("%s: due at %s, and there is no row", name,
				time.UnixMicro(at).UTC().Format("15:04:05"))
		}
	}
	for at := range led {
		v.wrongly("%s was fired at %v, and %s did not follow", leader, time.UnixMicro(at).UTC(),
			follower)
	}
	for id := range tasks {
		if owner[id] == "" {
			v.wrongly("task %v is of no due time", id)
		}
	}
	return v
}

func (v *dueVerdict) wrongly(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func fired(s *dues) (list []dueRow) {
	for _, f := range s.rows {
		if f.outcome == task.FireFired {
			list = append(list, f)
		}
	}
	return list
}

// demanded are all due times, and whether the schedule was paused then.
func (s *dues) demanded() map[int64]bool {
	due := map[int64]bool{}
	for _, e := range s.eras {
		step := e.seconds * second
		for at := e.since - e.since%step + step; at <= e.until; at += step {
			due[at] = e.paused
		}
	}
	return due
}

// judge looks at a row of the schedule's own.
func (v *dueVerdict) judge(f *dueRow, what string, due, paused bool) {
	overlap := strings.HasPrefix(f.reason, "the task of ") && !strings.HasPrefix(what, "each")
	switch {
	case !due:
		v.wrongly("%s: a row (%s), and it was not due, or has two", what, f.origin)
	case f.shared:
		v.wrongly("%s: it shares its row", what)
	case f.outcome == task.FireFired && !paused:
		v.fired++
		if strings.HasPrefix(what, "each") {
			v.late = append(v.late, f.time-f.at)
		}
	case f.outcome == task.FireSkipped && (paused && f.reason == "paused" || !paused && overlap):
		v.skipped++
	default:
		v.wrongly("%s: %s, %q; paused: %v", what, f.outcome, f.reason, paused)
	}
}

// honestDues are two schedules and their follower, told as it was.
func honestDues() (map[string]*dues, map[task.ID]bool) {
	tasks := map[task.ID]bool{}
	row := func(at int64, origin task.Origin) dueRow {
		id := task.ID{Batch: int64(len(tasks)) + 1}
		tasks[id] = true
		return dueRow{
			at: at, time: at + 5, origin: origin, outcome: task.FireFired, task: id, node: "a",
		}
	}
	own := func(seconds int64) dueRow { return row(seconds*second, task.OriginSchedule) }
	each := &dues{
		name: "each-0",
		eras: []dueEra{{0, 4*second + 1, 1, false}, {4*second + 1, 9 * second, 2, true}},
	}
	each.rows = []dueRow{own(1), own(2), own(3), own(4), row(4*second+7, task.OriginManual)}
	for _, at := range []int64{6, 8} {
		each.rows = append(each.rows, dueRow{
			at: at * second, origin: task.OriginSchedule, outcome: task.FireSkipped,
			reason: "paused", node: "b",
		})
	}
	skip := &dues{name: "skip-0", eras: []dueEra{{second - 1, 3 * second, 1, false}}}
	busy := dueRow{
		at: 2 * second, origin: task.OriginSchedule, outcome: task.FireSkipped,
		reason: "the task of 1 is not final",
	}
	skip.rows = []dueRow{own(1), busy, own(3)}
	after := &dues{name: "follower"}
	for _, f := range each.rows[:5] {
		after.rows = append(after.rows, row(f.at, task.OriginAfter))
	}
	return map[string]*dues{each.name: each, skip.name: skip, after.name: after}, tasks
}

func TestHonestDueTimesAreBelieved(t *testing.T) {
	stories, tasks := honestDues()
	v := judgeDues(stories, "each-0", "follower", tasks)
	want := "3 versions, 6 due times fired, 3 skipped, 1 runs by hand, 5 by following; late p50 5µs, p99 5µs, at most 5µs; by map[a:12]"
	if v.String() != want || len(v.wrong) > 0 {
		t.Errorf("got  %v, wrong: %q\nwant %s", v, v.wrong, want)
	}
}

func TestLiesAboutDueTimesAreFound(t *testing.T) {
	for what, lie := range map[string]func(each, skip, after *dues, tasks map[task.ID]bool){
		"a due time is left out": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.rows = slices.Delete(each.rows, 5, 6)
		},
		"a row at no due time": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.rows[5].at++
		},
		"two rows of one due time": func(_, skip, _ *dues, _ map[task.ID]bool) {
			skip.rows = append(skip.rows, skip.rows[1])
		},
		"a task of two due times": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.rows[0].task = each.rows[1].task
		},
		"a task that is not there": func(each, _, _ *dues, tasks map[task.ID]bool) {
			delete(tasks, each.rows[0].task)
		},
		"a task of no due time": func(_, _, _ *dues, tasks map[task.ID]bool) {
			tasks[task.ID{Batch: 99}] = true
		},
		"fired though it was paused": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.eras[0].paused = true
		},
		"skipped for no reason": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.rows[6].reason = ""
		},
		"missed": func(_, skip, _ *dues, _ map[task.ID]bool) {
			skip.rows[1].outcome = task.FireMissed
		},
		"rows are shared": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.rows[6].shared = true
		},
		"it did not follow": func(_, _, after *dues, tasks map[task.ID]bool) {
			delete(tasks, after.rows[0].task)
			after.rows = after.rows[1:]
		},
		"it followed what never was": func(_, _, after *dues, _ map[task.ID]bool) {
			after.rows[0].at += 5
		},
		"skipped as if it overlapped": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.rows[6].reason = "the task of 1 is not final"
		},
		"a later era began too early": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.eras[1].since, each.eras[1].seconds = 3*second, 1
		},
		"an era that nobody knows of": func(each, _, _ *dues, _ map[task.ID]bool) {
			each.eras = each.eras[:1]
		},
	} {
		stories, tasks := honestDues()
		lie(stories["each-0"], stories["skip-0"], stories["follower"], tasks)
		if v := judgeDues(stories, "each-0", "follower", tasks); len(v.wrong) == 0 {
			t.Errorf("believed: %s", what)
		}
	}
}
