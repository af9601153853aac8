package cron

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// field is one field of an expression as it was read.
type field struct {
	text  string
	parts []part
}

// part is what stands between commas.
type part struct {
	kind   kind
	lo, hi int // of values and ranges; of kindNearest, kindLast and kindNth lo is the day
	step   int // 0 = none
	nth    int
}

type kind int

const (
	kindAny         kind = iota // * or ?
	kindValues                  // lo to hi by step
	kindBeforeLast              // lo days before the last of the month
	kindLastWeekday             // of the month
	kindNearest                 // the weekday nearest to lo
	kindLast                    // the last day lo of the week in the month
	kindNth                     // the nth day lo of the week in the month
)

// place is where a field stands: what may be in it.
type place struct {
	name   string
	lo, hi int
	hashed int // H chooses from lo to it
	names  []string
}

const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
)

// places are the fields in their order.
func places() [6]place {
	return [...]place{
		{"second", 0, 59, 59, nil},
		{"minute", 0, 59, 59, nil},
		{"hour", 0, 23, 23, nil},
		{"day of month", 1, 31, 28, nil}, // every month has the 28th
		{"month", 1, 12, 12, []string{
			1: "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
		}},
		{"day of week", 0, 7, 6, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
	}
}

// reader reads one field.
type reader struct {
	place
	index int
	text  string // of the whole
	name  string // of the schedule; H needs it
}

func (r *reader) fail(at, n int, format string, args ...any) error {
	return &SyntaxError{
		Text: r.text, Field: r.place.name, At: at, Len: n, Message: fmt.Sprintf(format, args...),
	}
}

// read reads the field that stands at an offset of the text.
func (r *reader) read(at, end int) (field, error) {
	f := field{text: r.text[at:end]}
	for {
		next := end
		if comma := strings.IndexByte(r.text[at:end], ','); comma >= 0 {
			next = at + comma
		}
		p, err := r.part(at, next)
		if err != nil {
			return field{}, err
		}
		f.parts = append(f.parts, p)
		if next == end {
			break
		}
		at = next + 1
	}
	return f, nil
}

// part reads what stands between commas.
func (r *reader) part(at, end int) (part, error) {
	text := upper(r.text[at:end])
	if text == "" {
		return part{}, r.fail(at, 0, "something must stand here: * for any")
	}
	if p, ok, err := r.special(text, at, end); ok || err != nil {
		return p, err
	}
	span, stepText, stepped := strings.Cut(text, "/")
	p, open, err := r.span(span, at, stepped)
	if err != nil || !stepped {
		return p, err
	}
	if p.step, err = strconv.Atoi(stepText); err != nil || p.step < 1 {
		return part{}, r.fail(at+len(span)+1, len(stepText), "a step is a number from 1 on")
	}
	if open { // a/n goes on to the end
		p.hi = r.top()
	}
	if p.kind == kindAny {
		p = part{kind: kindValues, lo: r.lo, hi: r.top(), step: p.step}
	}
	if strings.HasPrefix(span, "H") { // the first of them is chosen, too
		p.lo += int(r.hash() % uint64(min(p.step, p.hi-p.lo+1)))
	}
	if p.step > p.hi-p.lo && p.step > r.top()-r.lo {
		return part{},
			r.fail(at+len(span)+1, len(stepText),
				"a step of %d leads past the end: the values are %d to %d", p.step, r.lo, r.top())
	}
	return p, nil
}

// upper is s with large letters, and as long as s whatever its bytes are.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// top is the greatest value, by one name only: Sunday is 0.
func (r *reader) top() int {
	if r.index == dayOfWeek {
		return 6
	}
	return r.hi
}

// span reads what stands before a step, if there is one. open: it is a single value.
func (r *reader) span(text string, at int, stepped bool) (p part, open bool, err error) {
	n := len(text)
	days := r.index == dayOfMonth || r.index == dayOfWeek
	switch {
	case text == "*", text == "?" && days:
		return part{kind: kindAny, lo: r.lo, hi: r.top()}, false, nil
	case text == "?":
		return part{}, false, r.fail(at, n, "? stands for any day only: write *")
	case text == "H" || strings.HasPrefix(text, "H("):
		p, err := r.chosen(text, at, stepped)
		return p, false, err
	}
	loText, hiText, ranged := strings.Cut(text, "-")
	p.kind = kindValues
	if p.lo, err = r.value(loText, at); err != nil {
		return part{}, false, err
	}
	if p.hi = p.lo; !ranged {
		if r.index == dayOfWeek && p.lo == 7 {
			p.lo, p.hi = 0, 0
		}
		return p, true, nil
	}
	if p.hi, err = r.value(hiText, at+len(loText)+1); err != nil {
		return part{}, false, err
	}
	if r.index == dayOfWeek && p.hi == 0 && p.lo > 0 {
		p.hi = 7 // a range that ends on Sunday
	}
	if p.hi < p.lo {
		return part{}, false,
			r.fail(at, n, "the range is reversed: write it as two, %s-%d,%d-%s", loText, r.top(),
				r.lo, hiText)
	}
	return p, false, nil
}

// value reads a number or a name.
func (r *reader) value(text string, at int) (int, error) {
	if i := slices.Index(r.names, text); i >= 0 && text != "" {
		return i, nil
	}
	v, err := strconv.Atoi(text)
	if err == nil && len(text) <= 2 && text[0] != '+' && text[0] != '-' && r.lo <= v && v <= r.hi {
		return v, nil
	}
	if r.names == nil {
		return 0, r.fail(at, len(text), "must be %d to %d", r.lo, r.hi)
	}
	return 0, r.fail(at, len(text), "must be %d to %d, or one of %s", r.lo, r.hi,
		strings.TrimSpace(strings.Join(r.names, " ")))
}

// chosen reads H and H(a-b): a value that the schedule's name chooses; before a step, the range
// that it chooses from.
func (r *reader) chosen(text string, at int, stepped bool) (part, error) {
	p := part{kind: kindValues, lo: r.lo, hi: r.hashed}
	if text != "H" {
		inside, closed := strings.CutSuffix(text[2:], ")")
		if !closed {
			return part{},
				r.fail(at, len(text), "H( needs its closing bracket, as in H(%d-%d)", r.lo,
					r.hashed)
		}
		in, open, err := r.span(inside, at+2, false)
		if err != nil {
			return part{}, err
		}
		if open || in.kind != kindValues || strings.HasPrefix(inside, "H") {
			return part{},
				r.fail(at, len(text), "H(…) holds a range, as in H(%d-%d)", r.lo, r.hashed)
		}
		p.lo, p.hi = in.lo, in.hi
	}
	if r.name == "" {
		return part{},
			r.fail(at, len(text), "H is chosen by the schedule's name, and there is none")
	}
	if !stepped {
		p.lo += int(r.hash() % uint64(p.hi-p.lo+1))
		p.hi = p.lo
	}
	return p, nil
}

// hash is the same for one name and field always. The bits are mixed as in MurmurHash3's finalizer:
// those of FNV differ little for names that differ in their last letter.
func (r *reader) hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(r.name))
	h.Write([]byte{0, byte(r.index)})
	v := h.Sum64()
	v = (v ^ v>>33) * 0xff51afd7ed558ccd
	v = (v ^ v>>33) * 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}

// special reads what only the fields of days have.
func (r *reader) special(text string, at, end int) (p part, ok bool, err error) {
	n := end - at
	switch {
	case r.index == dayOfMonth && text == "L":
		return part{kind: kindBeforeLast}, true, nil
	case r.index == dayOfMonth && (text == "LW" || text == "WL"):
		return part{kind: kindLastWeekday}, true, nil
	case r.index == dayOfMonth && strings.HasPrefix(text, "L-"):
		v, err := strconv.Atoi(text[2:])
		if err != nil || v < 1 || v > 30 {
			return part{}, false, r.fail(at, n, "L-n is n days before the last, 1 to 30")
		}
		return part{kind: kindBeforeLast, lo: v}, true, nil
	case r.index == dayOfMonth && strings.HasSuffix(text, "W"):
		v, err := r.value(text[:len(text)-1], at)
		return part{kind: kindNearest, lo: v}, err == nil, err
	case r.index == dayOfWeek && text == "L":
		return part{kind: kindValues, lo: 6, hi: 6}, true, nil // as in Quartz, the last of the week
	case r.index == dayOfWeek && strings.HasSuffix(text, "L"):
		v, err := r.value(text[:len(text)-1], at)
		return part{kind: kindLast, lo: v % 7}, err == nil, err
	case r.index == dayOfWeek && strings.Contains(text, "#"):
		dayText, nthText, _ := strings.Cut(text, "#")
		v, err := r.value(dayText, at)
		if err != nil {
			return part{}, false, err
		}
		nth, err := strconv.Atoi(nthText)
		if err != nil || nth < 1 || nth > 5 {
			return part{}, false,
				r.fail(at, n, "a month has a day of the week 1 to 5 times, as in MON#2")
		}
		return part{kind: kindNth, lo: v % 7, nth: nth}, true, nil
	}
	return part{}, false, nil
}

// any tells whether the field restricts nothing.
func (f *field) any() bool {
	return slices.ContainsFunc(f.parts, func(p part) bool { return p.kind == kindAny })
}

// values are the members of all parts that are values.
func (f *field) values() (set uint64) {
	for _, p := range f.parts {
		if p.kind != kindAny && p.kind != kindValues {
			continue
		}
		for v := p.lo; v <= p.hi; v += max(p.step, 1) {
			set |= 1 << v
		}
	}
	return set
}
