package forecast

import (
	"math"

	"github.com/rotahq/rota/task"
)

// KeyWork is what a group key has to do, as the store says.
type KeyWork struct {
	Ready, Running int64
	// Held: nothing of the key begins, however many workers there are: it is paused, or stopped, or
	// goes in order and its task is to be tried again, or waits.
	Held bool
	// Left is how many may begin at once by the rate of the key; below 0 = not known, a full burst.
	Left float64
}

// Keys is what limits of each key, and what is said of single ones, leave of what a queue has to
// do. The zero value is of a queue of whose keys nothing is known: none holds anything back.
type Keys struct {
	Known bool
	Cut   bool // not all was looked at; what was not may begin, as far as is known

	Ready, Running int64 // of the keys that were looked at
	Held           int64 // of Ready: nothing of these keys begins
	// Full is how many of Ready wait for their keys, not for slots: those of keys of which as many
	// run as may, or as many have begun, and what is more than others may do within DrainWithin.
	Full   int64
	AtOnce float64 // of Ready without Held: so many may run at a time
	// Slots is how many slots the keys let be used, those that run included; FullSlots are those of
	// them that belong to keys which have more to do than they may within DrainWithin.
	Slots, FullSlots float64
	// Work is how many seconds all of Ready without Held runs; Soon is what of that can be done
	// within DrainWithin, and Longest how many seconds it takes to do all of it, with any number of
	// slots.
	Work, Soon, Longest float64
}

// KeysOf adds up the keys of a queue whose tasks run for so many seconds; cut tells that there are
// more of them.
func KeysOf(list []KeyWork, limits *task.KeyLimits, mean float64, cut bool) Keys {
	k := Keys{Known: true, Cut: cut}
	for i := range list {
		k.add(&list[i], limits, mean)
	}
	return k
}

func (k *Keys) add(w *KeyWork, limits *task.KeyLimits, mean float64) {
	ready, running := float64(w.Ready), float64(w.Running)
	k.Ready += w.Ready
	k.Running += w.Running
	if w.Held {
		k.Held += w.Ready
		k.Slots += running
		return
	}
	within, most := DrainWithin.Seconds(), math.Inf(1)
	if limits.MaxRunning > 0 {
		most = float64(limits.MaxRunning)
	}
	left := leftOf(w, limits)
	begin := math.Min(ready, left+speed(limits.Rate)*within)  // within DrainWithin
	slots := math.Max(math.Min(running+ready, most), running) // what runs goes on
	if ready > left {                                         // it goes on as fast as its rate
		slots = math.Min(slots, (left/within+speed(limits.Rate))*mean)
	}
	k.Slots += slots
	if running >= most || left < 1 {
		k.Full += w.Ready
	} else {
		k.Full += w.Ready - int64(math.Min(begin, math.Ceil(most*within/mean)))
	}
	k.AtOnce += math.Min(begin, most)
	k.Work += ready * mean
	k.Soon += math.Min(begin*mean, most*within)
	takes := ready * mean / most
	if limits.Rate.Count > 0 {
		takes = math.Max(takes, (ready-left)/speed(limits.Rate))
	}
	k.Longest = math.Max(k.Longest, takes)
	if takes > within {
		k.FullSlots += slots
	}
}

// leftOf is how many tasks of a key may begin at once by its rate, as far as is known.
func leftOf(w *KeyWork, limits *task.KeyLimits) float64 {
	switch {
	case limits.Rate.Count == 0:
		return math.Inf(1)
	case w.Left >= 0:
		return w.Left
	case limits.Burst > 0:
		return float64(limits.Burst)
	}
	return float64(limits.Rate.Count)
}

// speed is how many tasks may begin in a second; infinite where there is no limit.
func speed(r task.Rate) float64 {
	if r.Count == 0 {
		return math.Inf(1)
	}
	return float64(r.Count) / r.Per.Seconds()
}

// open is how many ready tasks do not wait for their keys, as far as is known.
func (q *Queue) open() int64 { return max(q.Ready-q.Keys.Held-q.Keys.Full, 0) }

// through is the share of what came lately that the queue's keys let through: the rest has become
// ready and waits for its key. What came has left, runs, may begin, or waits for its key; so no
// more waits than came and is in neither of the other places. What was held before is taken to have
// left: the share is rather too large.
func (q *Queue) through() float64 {
	came := sum(lately(q.Record.Arrived))
	if came == 0 || q.Keys.Held+q.Keys.Full == 0 {
		return 1
	}
	waits := came - sum(lately(q.Record.Left)) - float64(q.Running) - float64(q.open())
	waits = math.Max(math.Min(waits, float64(q.Keys.Held+q.Keys.Full)), 0)
	return 1 - waits/came
}

// comes tells whether there is, or comes, anything to do that keys let begin.
func (q *Queue) comes() bool {
	return q.Ready > q.Keys.Held || len(q.Record.Arrived) > 0 && q.through() > 0
}

// keySlots is how many slots the keys let be used, those of tasks included that have none, or were
// not looked at; infinite where nothing is known of keys.
func (q *Queue) keySlots() float64 {
	if !q.Keys.Known {
		return math.Inf(1)
	}
	return q.Keys.Slots + float64(max(q.Ready-q.Keys.Ready, 0)+max(q.Running-q.Keys.Running, 0))
}

// full tells whether keys that have more to do than they may account for all that the queue does,
// but for a quarter: then more slots than keySlots stay empty, whatever comes.
func (q *Queue) full() bool {
	busy := q.Record.perMinute() / 60 * q.Record.Mean * q.through()
	return q.Keys.FullSlots > 0 && busy <= 1.25*q.Keys.FullSlots
}

// waiting is the work that is ready for slots, as three numbers: how many tasks may run at a time,
// the seconds that all of it runs, and those of it that can be done within DrainWithin.
func (q *Queue) waiting() (atOnce, work, soon float64) {
	k, others := &q.Keys, float64(max(q.Ready-q.Keys.Ready, 0))
	return others + k.AtOnce, others*q.Record.Mean + k.Work, others*q.Record.Mean + k.Soon
}
