package chaos

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Tasks of queues with limits are rivals: their rules are about many of them at a time. So each
// one's mark ends with its queue and its group key, as s0-17@keyed/c1, and check keeps the tasks of
// a queue together.

const (
	queueKeyed   = "keyed"
	queueOrdered = "ordered"
)

const (
	ruleKeyFull   rule = "more tasks of a key ran than may"
	ruleQueueFull rule = "more tasks of a queue ran than may"
	ruleOrder     rule = "a task of a key in order began before another was over"
)

// limited are how many tasks of a queue, and of each of its keys, may run at a time.
type limited struct{ queue, key int }

// limitsOf are the queues that have limits. Keys that have room for one are in order.
var limitsOf = map[string]limited{queueKeyed: {3, 2}, queueOrdered: {math.MaxInt, 1}}

// rival makes the mark of a task whose queue has limits.
func rival(mark, queue, key string) string { return mark + "@" + queue + "/" + key }

// rivalry is the queue and the group key in a mark; ok = it has them.
func rivalry(mark string) (queue, key string, ok bool) {
	_, at, ok := strings.Cut(mark, "@")
	queue, key, _ = strings.Cut(at, "/")
	return queue, key, ok
}

// run is a time in which a hand-out certainly ran and counted: from its beginning until its handler
// was done or its outcome was written down, whichever came first. Of a hand-out that was not
// written down nobody knows until when it counted.
type run struct {
	mark     string
	from, to int64 // in microseconds
}

// runs are those of a task, and over is when it was final; 0 = it is not.
func (s *story) runs(mark string) (list []run, over int64) {
	ended := map[hand]int64{}
	for _, l := range s.steps {
		ended[handOf(l)] = l.At
		if l.Final {
			over = l.At
		}
	}
	for _, l := range s.begun {
		// one that began when its outcome stood did not count: its worker was stopped in between
		if end, ok := ended[handOf(l)]; ok && l.At < end {
			list = append(list, run{mark, l.At, min(l.At+l.Lasts, end)})
		}
	}
	return list, over
}

// judgeLimits looks at the tasks of queues with limits: how many ran at a time, and whether those
// of a key in order went one after another.
func judgeLimits(v *verdict, stories map[string]*story) {
	queues, keys := map[string][]run{}, map[string][]run{}
	turns := map[string][]run{} // of keys in order: from a task's first beginning until its end
	for mark, s := range stories {
		queue, key, ok := rivalry(mark)
		if !ok {
			continue
		}
		list, over := s.runs(mark)
		queues[queue] = append(queues[queue], list...)
		key = queue + "/" + key
		keys[key] = append(keys[key], list...)
		if limitsOf[queue].key > 1 || len(list) == 0 || over == 0 {
			continue
		}
		first := slices.MinFunc(list, func(a, b run) int { return cmp.Compare(a.from, b.from) })
		turns[key] = append(turns[key], run{mark, first.from, over})
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		v.Limited += len(queues[queue])
		v.most(ruleQueueFull, queue, queues[queue], limitsOf[queue].queue)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		queue, _, _ := strings.Cut(key, "/")
		v.Full += v.most(ruleKeyFull, key, keys[key], limitsOf[queue].key)
	}
	for _, key := range slices.Sorted(maps.Keys(turns)) {
		v.most(ruleOrder, key, turns[key], 1)
	}
}

// most complains where more than limit runs overlap, and counts how often there were as many.
func (v *verdict) most(r rule, whose string, runs []run, limit int) (full int) {
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.mark, b.mark))
	})
	var under []run
	for _, one := range runs {
		under = slices.DeleteFunc(under, func(u run) bool { return u.to <= one.from })
		under = append(under, one)
		switch {
		case len(under) == limit:
			full++
		case len(under) > limit:
			v.wrong(r, "%s, of which %d may: %+v", whose, limit, under)
		}
	}
	return full
}
