package dispatch

import (
	"slices"
	"testing"
)

// sound holds what memory counts against a count: it is called after every line of the stories, and
// where houses are closed.
func sound(t *testing.T, m *memory) {
	t.Helper()
	// tasks that are ready
	plain, odd := map[*queue]int{}, map[*queue]int{}
	for id, sp := range m.spans {
		left, idle, under, waiting := 0, 0, 0, 0
		for s := range sp.live() {
			left++
			switch at := s.place(); at {
			case out, settling:
				under++
			case ready:
				idle++
				under++
			case parked:
				idle++
				waiting++
			default:
				idle++
			}
			if s.plain(ready) {
				plain[sp.queue]++
			} else if s.place() == ready {
				odd[sp.queue]++
			}
			if got := m.find(s.id()); got != s {
				t.Errorf("%v of span %d is found in %+v", s.id(), id, got)
			}
			it := s.cell.item
			if it != nil && (it.cell != s.cell || it.span != sp || it.id != s.id()) {
				t.Errorf("%v has the item of %v", s.id(), it.id)
			}
		}
		if sp.left != left || sp.idle != idle || sp.under != under || left == 0 {
			t.Errorf("span %d counts %d left, %d idle, %d under way; it has %d, %d, %d", id, sp.left,
				sp.idle, sp.under, left, idle, under)
		}
	}
	soundExpiries(t, m)
	for name, w := range m.workers {
		hands := 0
		for i, p := range w.parcels {
			n := len(p.out())
			if p.at != i || p.worker != w || p.left != n || n == 0 {
				t.Errorf("a parcel of %s counts %d out, and has %d", name, p.left, n)
			}
		}
		for s, p := range w.plainOut() {
			if hands++; m.find(s.id()) != s || p != s.cell.parcel {
				t.Errorf("%s has %v in hands, which is not here", name, s.id())
			}
		}
		if hands != w.plain {
			t.Errorf("%s counts %d plain tasks in hands, and has %d", name, w.plain, hands)
		}
		for i, it := range w.out {
			if it.at != i || it.worker != w || it.place != out || it.cell.item != it {
				t.Errorf("%s has %v in hands, which is %d", name, it.id, it.place)
			}
			if it.parcel != nil && !slices.Contains(w.parcels, it.parcel) {
				t.Errorf("the parcel that watches %v is not its worker's", it.id)
			}
		}
	}
	for name, q := range m.queues {
		runs, items, void, bytes := 0, 0, 0, int64(0)
		for h, l := range q.ready.heaps() {
			soundLane(t, q, h, l)
			for i := range h.entries {
				e := &h.entries[i]
				switch it := e.item; {
				case it == nil:
					last := int32(len(e.span.cells)) - 1 // its rest may have been given back
					for k := e.from; k <= min(e.to, last); k++ {
						if c := &e.span.cells[k]; c.place == ready {
							runs++
							bytes += int64(len(c.context))
						}
					}
					continue
				case e.void():
					void++
				default:
					items++
					if m.item(it.id) != it {
						t.Errorf("the heap of %s has %v, which is not here", name, it.id)
					}
				}
				bytes += int64(e.bytes)
			}
		}
		if runs != plain[q] || items != odd[q] || q.ready.count() != runs+items+void ||
			q.ready.bytes() != bytes {
			t.Errorf("the heap of %s counts %d of %d bytes; it has %d of %d plain tasks that are ready, "+
				"%d of %d items, %d that left, %d bytes", name, q.ready.count(), q.ready.bytes(),
				runs,
				plain[q], items, odd[q], void, bytes)
		}
	}
}

// soundExpiries wants all that expires some time, and may still go out, to be among what the alarm
// is set for, and nothing else.
func soundExpiries(t *testing.T, m *memory) {
	t.Helper()
	wanted := 0
	for _, sp := range m.spans {
		for s := range sp.live() {
			it := s.cell.item
			if it == nil || it.expires == 0 || it.place != ready && it.place != parked {
				continue
			}
			if it.expiry > 0 {
				wanted++
			} else if !sp.giving {
				t.Errorf("%v is %d, and nothing watches when it expires", it.id, it.place)
			}
		}
	}
	x := &m.expiring
	if len(x.items) != wanted {
		t.Errorf("%d items are watched, %d are to expire", len(x.items), wanted)
	}
	for i, it := range x.items {
		if it.expiry != i+1 {
			t.Errorf("%v stands at %d, and thinks at %d", it.id, i+1, it.expiry)
		}
		if up := x.items[max(i-1, 0)/2]; up.expires > it.expires {
			t.Errorf("%v expires before %v, and stands below it", it.id, up.id)
		}
	}
	if len(x.items) > 0 && (x.at == 0 || x.at > max(x.items[0].expires, x.pause)) {
		t.Errorf("the alarm is set for %d, the first expires at %d", x.at, x.items[0].expires)
	}
}

// soundLane wants each lane to stand where it belongs, and to be counted.
func soundLane(t *testing.T, q *queue, h *heap, l *lane) {
	t.Helper()
	ls := q.ready.lanes
	if ls == nil {
		return
	}
	for i := range h.entries {
		e := &h.entries[i]
		if ls.isApart(e.span) != (l == nil) {
			t.Errorf("a lane of %s has a task of span %d", q.conf.Name, e.span.ID)
		}
		if l == nil || e.item != nil && e.void() {
			continue
		}
		for k := e.from; k <= min(e.to, int32(len(e.span.cells))-1); k++ {
			n := e.id.N
			if e.item == nil {
				n = e.span.cells[k].n
			}
			if key, known := e.span.keyOf(n); !known || key != l.key {
				t.Errorf("lane %q of %s has task %d of span %d, of key %q", l.key, q.conf.Name, n,
					e.span.ID, key)
			}
		}
	}
	if l == nil { // of the last, what is apart
		var sum laneSum
		for _, l := range ls.by {
			sum.add(laneSum{l.heap.count, l.bytes, min(l.heap.count, max(l.room, 0))}, 1)
		}
		if len(ls.by) != len(ls.open.list)+len(ls.shut.list) || sum != ls.sum {
			t.Errorf("%d lanes, %d open and %d shut, count %+v, and have %+v", len(ls.by),
				len(ls.open.list), len(ls.shut.list), ls.sum, sum)
		}
		return
	}
	in := &ls.open
	if l.room <= 0 {
		in = &ls.shut
	}
	if l.in != in || in.list[l.at] != l || ls.by[l.key] != l || len(l.entries) == 0 {
		t.Errorf("lane %q, with room for %d and %d entries, stands in the wrong place", l.key,
			l.room, len(l.entries))
	}
}
