package history

// QueueMinute is what happened in a queue in one minute since 1970.
type QueueMinute struct {
	Queue  string
	Minute int64
	Record
}

// Minutes puts together what happened in each queue, minute by minute from one on: the counts, and
// from the minute whole on the durations, too, which take many times as much memory.
type Minutes struct {
	from, whole int64
	by          map[queueMinute]*QueueMinute
}

type queueMinute struct {
	queue  string
	minute int64
}

// NewMinutes begins with nothing.
func NewMinutes(from, whole int64) *Minutes {
	return &Minutes{from: from, whole: whole, by: map[queueMinute]*QueueMinute{}}
}

// Row takes in the row of a queue's minute.
func (m *Minutes) Row(minute int64, queue string, body []byte) error {
	r, err := Decode(body)
	if err == nil {
		m.add(minute, queue, r)
	}
	return err
}

// Changes takes in what a transaction changed that is not in the rows yet.
func (m *Minutes) Changes(body []byte) error {
	return decodeChanges(body, func(k cell, r *Record) { m.add(k.minute, k.Queue, r) })
}

func (m *Minutes) add(minute int64, queue string, r *Record) {
	if minute < m.from {
		return
	}
	k := queueMinute{queue, minute}
	if m.by[k] == nil {
		m.by[k] = &QueueMinute{Queue: queue, Minute: minute}
	}
	if minute < m.whole {
		m.by[k].Counts.Add(&r.Counts)
		return
	}
	m.by[k].Merge(r)
}

// List is what was taken in, in no order.
func (m *Minutes) List() (list []QueueMinute) {
	for _, q := range m.by {
		list = append(list, *q)
	}
	return list
}
