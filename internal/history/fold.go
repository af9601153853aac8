package history

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Minutes of a row: how long the time is that it is of.
const (
	Minute = 1
	Hour   = 60
)

// Key is what a row of the history is of: the Minutes from At times Minutes minutes after 1970 on,
// in a series.
type Key struct {
	Minutes int
	At      int64
	Series
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Minutes, b.Minutes), cmp.Compare(a.At, b.At),
		a.Series.compare(b.Series))
}

// Kept says how long rows are kept: of minutes, and of hours.
type Kept struct{ Minutes, Hours time.Duration }

// How long rows are kept unless something else is said.
const (
	KeptMinutes = 24 * time.Hour
	KeptHours   = 90 * 24 * time.Hour
)

// Complete fills in what is not said.
func (k Kept) Complete() Kept {
	return Kept{cmp.Or(k.Minutes, KeptMinutes), cmp.Or(k.Hours, KeptHours)}
}

// Oldest is the At of the oldest row of so many minutes that is kept at a time in microseconds.
func (k Kept) Oldest(minutes int, now int64) int64 {
	d := k.Minutes
	if minutes == Hour {
		d = k.Hours
	}
	return (now - d.Microseconds()) / (time.Minute.Microseconds() * int64(minutes))
}

// Fold adds up what transactions changed to what is to be added to the rows of the history.
type Fold struct {
	kept  Kept
	now   int64
	cells map[cell]*Record // that are not spread over their series yet
	rows  map[Key]*Record
}

// NewFold begins at a time in microseconds. What is older than is kept is left out.
func NewFold(kept Kept, now int64) *Fold {
	return &Fold{kept: kept, now: now, cells: map[cell]*Record{}, rows: map[Key]*Record{}}
}

// Add takes in what one transaction changed. After an error nothing of it is in.
func (f *Fold) Add(body []byte) error {
	if err := decodeChanges(body, func(cell, *Record) {}); err != nil {
		return err
	}
	return decodeChanges(body, func(k cell, r *Record) {
		// many transactions count in few cells: these are spread over their series once
		if all := f.cells[k]; all != nil {
			all.Merge(r)
		} else {
			f.cells[k] = r
		}
	})
}

// spread adds what happened in a cell to all series that it belongs to.
func (f *Fold) spread(k cell, r *Record) {
	f.merge(k.minute, Series{}, r)
	f.merge(k.minute, Series{Queue: k.Queue}, r)
	if k.Stage != "" {
		f.merge(k.minute, Series{Queue: k.Queue, Stage: k.Stage}, r)
	}
	if k.Worker != "" {
		f.merge(k.minute, Series{Worker: k.Worker}, r)
	}
}

func (f *Fold) merge(at int64, s Series, r *Record) {
	for _, minutes := range [...]int{Minute, Hour} {
		key := Key{minutes, at / int64(minutes), s}
		if key.At < f.kept.Oldest(minutes, f.now) {
			continue
		}
		if f.rows[key] == nil {
			f.rows[key] = new(Record)
		}
		f.rows[key].Merge(r)
	}
}

// How long to rest between folds.
const (
	foldEvery = 5 * time.Second // at least
	foldRest  = 30              // times as long as a fold took
	foldLast  = time.Minute     // at most
)

// Rest is how long to rest after a fold that took so long: most of the time, so that others are not
// in its way; but when it left something, only as long as it took.
func Rest(took time.Duration, left bool) time.Duration {
	if left {
		return min(took, foldLast)
	}
	return min(max(foldEvery, foldRest*took), foldLast)
}

// Due tells whether it is time for what was to be done at a time at least, in microseconds. What is
// to be done later than any rest lasts was put off before the clock was set back.
func Due(now, at int64) bool { return now >= at || at-now > foldLast.Microseconds() }

// Samples notes how many tasks of each queue are ready and running now, and how many of all. Of a
// queue that has none it is noted once, after one in which it had some: a store in which nothing
// happens writes nothing. had are the queues that had some the last time; it answers those that
// have some now, and whether there is anything to note.
func (f *Fold) Samples(list []store.QueueCounts, had map[string]bool) (map[string]bool, bool) {
	have := map[string]bool{}
	var all task.Counts
	noted := false
	for i := range list {
		c, queue := &list[i].Counts, list[i].Queue
		all.Ready, all.Running = all.Ready+c.Ready, all.Running+c.Running
		if c.Ready+c.Running > 0 {
			have[queue] = true
		}
		if have[queue] || had[queue] {
			f.sample(queue, c)
			noted = true
		}
	}
	if noted {
		f.sample("", &all)
	}
	return have, noted
}

func (f *Fold) sample(queue string, c *task.Counts) {
	f.merge(minute(f.now), Series{Queue: queue}, &Record{
		Ready: c.Ready + 1, Running: c.Running + 1,
	})
}

// Rows yields what is to be added, in the order of the keys: the store as a whole comes first, then
// queues, so that those have room when there is not room for all.
func (f *Fold) Rows() iter.Seq2[Key, *Record] {
	return func(yield func(Key, *Record) bool) {
		for k, r := range f.cells {
			f.spread(k, r)
		}
		clear(f.cells)
		for _, k := range slices.SortedFunc(maps.Keys(f.rows), compareKeys) {
			if !yield(k, f.rows[k]) {
				return
			}
		}
	}
}

// Bounds on the rows of a minute, and of an hour. Names of stages and workers come from callers,
// who may invent any number of them, and leave no trace of them but here; those of queues do, too,
// and have room of their own. What has no room is in the sums all the same: a stage in its queue's,
// a queue and a worker in the store's.
const (
	MostQueues = 20_000 // rows of queues
	MostOthers = 20_000 // rows of stages and workers
	MostStages = 100    // of one queue
)

// Kind tells apart what has room of its own.
type Kind int

// Kinds of rows that are counted.
const (
	OfQueues Kind = iota // of all queues as a whole
	OfOthers             // of all stages and workers
	OfStages             // of the stages of one queue
)

// Counted names rows of one time that are counted together; Queue is set where they are OfStages.
type Counted struct {
	Minutes int
	At      int64
	Kind    Kind
	Queue   string
}

// Counts are with which rows a row shares its room; with none, the one of the store as a whole.
func (k Key) Counts() []Counted {
	switch {
	case k.Series == (Series{}):
		return nil
	case k.Stage != "":
		return []Counted{
			{k.Minutes, k.At, OfOthers, ""}, {k.Minutes, k.At, OfStages, k.Queue},
		}
	case k.Worker != "":
		return []Counted{{k.Minutes, k.At, OfOthers, ""}}
	}
	return []Counted{{k.Minutes, k.At, OfQueues, ""}}
}

// Room keeps count of rows, from when one of them has to be made. The zero value has counted
// nothing; it is good for one transaction.
type Room struct{ rows map[Counted]int64 }

// Take tells whether a row fits that is not there yet, and counts it if it does. rows counts those
// that are there.
func (r *Room) Take(k Key, rows func(Counted) (int64, error)) (bool, error) {
	if r.rows == nil {
		r.rows = map[Counted]int64{}
	}
	fits := true
	for _, c := range k.Counts() {
		n, known := r.rows[c]
		if !known {
			var err error
			if n, err = rows(c); err != nil {
				return false, err
			}
			r.rows[c] = n
		}
		fits = fits && n < [...]int64{MostQueues, MostOthers, MostStages}[c.Kind]
	}
	if fits {
		for _, c := range k.Counts() {
			r.rows[c]++
		}
	}
	return fits, nil
}
