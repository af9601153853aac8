package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// decoder reads one body from front to back. Its first fault stands: from then on nothing is read
// any more and every loop ends, so that only the end asks whether there was one.
type decoder struct {
	b       []byte
	i       int  // next byte
	lenient bool // unknown names are skipped

	fault string // what is wrong; "" = nothing yet
	at    int    // where
	value bool   // it is a value, not JSON or types

	strings strings.Builder // the present block of strings, see keep

	children int // submissions in reports so far
	waits    int // names of tasks that others wait for so far

	// the last two times read, and which of them was read last: hand-outs of one moment have one
	// deadline, and those that were submitted together are ready since one moment
	moments [2]moment
	latest  int
}

// moment is a time, and how it was written.
type moment struct {
	at   time.Time
	text []byte
}

// begin looks at the encoding, all that can be known before reading.
func (d *decoder) begin(b []byte) {
	d.b = b
	if !utf8.Valid(b) {
		at := 0
		for r, size := utf8.DecodeRune(b); r != utf8.RuneError ||
			size != 1; r, size = utf8.DecodeRune(b[at:]) {
			at += size
		}
		d.b = b[:at] // what follows can't be read, not even to locate the fault
		d.failAt(at, "not valid UTF-8")
	}
}

// end wants nothing but space behind the value and returns the fault as an error, with its place.
func (d *decoder) end(root string) error {
	if d.fault == "" {
		if d.peek(); d.i == len(d.b) {
			return nil
		}
		d.failAt(d.i, "expected nothing behind the value")
	}
	return &Error{
		Value:  d.value,
		Fields: []task.FieldError{{Location: locate(root, d.b, d.at), Message: d.fault}},
	}
}

// fail notes that something at offset at is understood but wrong.
func (d *decoder) fail(at int, format string, args ...any) {
	if d.fault == "" {
		d.at, d.fault = at, fmt.Sprintf(format, args...)
		d.i = len(d.b)
	}
}

// failAt notes that the text is no JSON from offset at on.
func (d *decoder) failAt(at int, fault string) { d.fail(at, "at byte %d: %s", at, fault) }

// failValue notes that a value is not one that can be.
func (d *decoder) failValue(at int, format string, args ...any) {
	d.value = d.value || d.fault == ""
	d.fail(at, format, args...)
}

// failType notes a value of another type than what, or none at all.
func (d *decoder) failType(what string) {
	if end, fault := scanValue(d.b, d.i); fault != "" {
		d.failAt(end, fault)
	}
	d.fail(d.i, "expected %s", what)
}

// peek is the next byte that is no space, 0 at the end.
func (d *decoder) peek() byte {
	if rest := d.b[d.i:]; len(rest) > 0 && rest[0] > ' ' {
		return rest[0]
	}
	return d.peekOver()
}

// peekOver is peek for when there is space to skip.
func (d *decoder) peekOver() byte {
	if d.i = skipSpace(d.b, d.i); d.i < len(d.b) {
		return d.b[d.i]
	}
	return 0
}

// object reads an object field by field: for o := d.object(names); o.next(); { switch o.name … }.
type object struct {
	d     *decoder
	names []string // known names, in the order in which they usually come
	name  string   // the present field's
	seen  uint64   // bits of names
	guess int      // which of names probably comes next
	begun bool
	start int // of the object
	at    int // of the present name
}

func (d *decoder) object(names []string) object {
	o := object{d: d, names: names}
	if d.peek() != '{' {
		d.failType("an object")
	} else {
		o.start = d.i
		d.i++
	}
	return o
}

// next moves to the next known field; its value must be read before next is called again.
func (o *object) next() bool {
	if o.usual() {
		return true
	}
	d := o.d
	for {
		name, more := o.advance()
		if !more {
			return false
		}
		switch known := o.find(name); {
		case known < 0 && d.lenient:
			d.skip()
		case known < 0:
			d.fail(o.at, "unknown field; known are %s", strings.Join(o.names, ", "))
		case o.seen>>known&1 == 1:
			d.fail(o.at, "comes twice")
		default:
			o.seen |= 1 << known
			o.name = o.names[known]
			return true
		}
	}
}

// usual moves to the next field if it is the guessed one, written without space, as Append does.
func (o *object) usual() bool {
	d, i := o.d, o.d.i
	if o.guess == len(o.names) || o.seen>>o.guess&1 == 1 {
		return false
	}
	if o.begun {
		if i == len(d.b) || d.b[i] != ',' {
			return false
		}
		i++
	}
	name := o.names[o.guess]
	end := i + 1 + len(name)
	if end+1 >= len(d.b) || d.b[i] != '"' || string(d.b[i+1:end]) != name || d.b[end] != '"' ||
		d.b[end+1] != ':' {
		return false
	}
	d.i = end + 2
	o.name, o.at, o.begun = name, i, true
	o.seen |= 1 << o.guess
	o.guess++
	return true
}

// nextAny moves to the next field, whatever its name.
func (o *object) nextAny() bool {
	name, more := o.advance()
	o.name = string(name)
	return more
}

// advance reads up to the value of the next field.
func (o *object) advance() (name []byte, more bool) {
	d := o.d
	if d.fault != "" {
		return nil, false
	}
	c := d.peek()
	if c == '}' {
		d.i++
		return nil, false
	}
	if o.begun {
		if c != ',' {
			d.unexpected("expected , or }")
			return nil, false
		}
		d.i++
		c = d.peek()
	}
	o.begun = true
	if c != '"' {
		d.unexpected("expected a name in quotes")
		return nil, false
	}
	o.at = d.i
	name = d.text("a name")
	if d.peek() != ':' {
		d.unexpected("expected :")
		return nil, false
	}
	d.i++
	return name, true
}

func (o *object) find(name []byte) int {
	k := o.guess
	for range o.names {
		if k == len(o.names) {
			k = 0
		}
		if string(name) == o.names[k] {
			o.guess = k + 1
			return k
		}
		k++
	}
	return -1
}

// need notes that a field was left out. It belongs behind the loop.
func (o *object) need(name string) {
	if k := slices.Index(o.names, name); o.seen>>k&1 == 0 {
		o.d.failValue(o.start, "%s is missing", name)
	}
}

func (d *decoder) unexpected(fault string) {
	if d.i == len(d.b) {
		fault = early
	}
	d.failAt(d.i, fault)
}

// array reads a list element by element: for a := d.array(limit); a.next(); { … }.
type array struct {
	d     *decoder
	start int
	first int // where the first element begins
	n     int // elements so far, the present one included
	limit int
}

func (d *decoder) array(limit int) array {
	a := array{d: d, limit: limit}
	if d.peek() != '[' {
		d.failType("a list")
	} else {
		a.start = d.i
		d.i++
	}
	return a
}

func (a *array) next() bool {
	d := a.d
	if d.fault != "" {
		return false
	}
	c := d.peek()
	switch {
	case c == ']':
		d.i++
		return false
	case a.n > 0 && c != ',':
		d.unexpected("expected , or ]")
		return false
	case a.n > 0:
		d.i++
		d.peek()
	default:
		a.first = d.i
	}
	if a.n == a.limit {
		d.failValue(a.start, "more than %d elements", a.limit)
		return false
	}
	a.n++
	return true
}

// room estimates, once the first element is read, how many elements the list has: the rest of the
// body divided by the size of the first. A body of n bytes never makes it more than n/16.
func (a *array) room() int {
	if a.n != 1 {
		return 0
	}
	return min((len(a.d.b)-a.d.i)/max(a.d.i-a.first+1, 16), a.limit-1)
}

// add appends the element just read, growing the list to the size that it probably has.
func add[T any](list []T, a *array, v T) []T {
	if a.n == 1 {
		list = append(make([]T, 0, len(list)+1+a.room()), list...)
	}
	return append(list, v)
}
