package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// decoder reads one body from front to back. As in package wire its first fault stands: from then
// on nothing is read, and only the end asks whether there was one.
type decoder struct {
	b    []byte
	i    int    // next byte
	list string // the list that is being read, as a place names it; "" = none
	n    int    // its present element

	children int // submissions in reports so far
	waits    int // names of tasks that others wait for so far

	fault *wire.Error
	text  strings.Builder // the present block of strings, see keep
}

// fail notes that the body can't be read at a field; "" = in between.
func (d *decoder) fail(field, format string, args ...any) { d.note(false, field, format, args...) }

// failValue notes that a value is not one that can be.
func (d *decoder) failValue(field, format string, args ...any) {
	d.note(true, field, format, args...)
}

func (d *decoder) note(value bool, field, format string, args ...any) {
	if d.fault != nil {
		return
	}
	place := "body"
	if d.list != "" {
		place += "." + d.list + "[" + strconv.Itoa(d.n) + "]"
	}
	if field != "" {
		place += "." + field
	}
	d.fault = &wire.Error{Value: value, Fields: []task.FieldError{{
		Location: strings.Clone(place), Message: fmt.Sprintf(format, args...),
	}}}
	d.i = len(d.b)
}

// end wants nothing behind what was read, and returns the fault.
func (d *decoder) end() error {
	d.list = ""
	if d.i < len(d.b) {
		d.fail("", "at byte %d: expected nothing behind the value", d.i)
	}
	if d.fault != nil {
		return d.fault
	}
	return nil
}

// early is the fault of a body that ends inside a value.
const early = "at byte %d: ends too early"

func (d *decoder) number(field string) uint64 {
	v, n := binary.Uvarint(d.b[d.i:])
	if n <= 0 {
		d.badNumber(field, n)
		return 0
	}
	d.i += n
	return v
}

func (d *decoder) signed(field string) int64 {
	v, n := binary.Varint(d.b[d.i:])
	if n <= 0 {
		d.badNumber(field, n)
		return 0
	}
	d.i += n
	return v
}

func (d *decoder) badNumber(field string, n int) {
	if n == 0 {
		d.fail(field, early, len(d.b))
	} else {
		d.fail(field, "at byte %d: a number is too large", d.i)
	}
}

// count reads how many elements a list has. Each of them takes a byte at least.
func (d *decoder) count(field string, limit int) int {
	n := d.length(field, limit)
	if n > len(d.b)-d.i {
		d.fail(field, early, len(d.b))
		return 0
	}
	return n
}

// length is count for a list in runs, of which one may be of many elements.
func (d *decoder) length(field string, limit int) int {
	n := d.number(field)
	if n > uint64(limit) {
		d.failValue(field, "more than %d elements", limit)
		return 0
	}
	return int(n)
}

// flags reads which fields follow; known are the bits that there may be.
func (d *decoder) flags(known uint64) uint64 {
	f := d.number("")
	if f&^known != 0 {
		d.fail("", "has a field that is not known: bits %#x", f&^known)
		return 0
	}
	return f
}

// raw reads a length, and so many bytes.
func (d *decoder) raw(field string) []byte {
	n := d.number(field)
	if n > uint64(len(d.b)-d.i) {
		d.fail(field, early, len(d.b))
		return nil
	}
	end := d.i + int(n)
	v := d.b[d.i:end:end]
	d.i = end
	return v
}

// sound is raw for a text.
func (d *decoder) sound(field string) []byte {
	b := d.raw(field)
	switch {
	case !utf8.Valid(b):
		d.fail(field, "not valid UTF-8")
	case bytes.IndexByte(b, 0) >= 0:
		d.fail(field, "must not contain NUL")
	default:
		return b
	}
	return nil
}

// str reads a text; before is the one that is probably repeated.
func (d *decoder) str(field, before string) string {
	b := d.sound(field)
	if string(b) == before {
		return before
	}
	return d.keep("", b)
}

func (d *decoder) strs(field string, limit int) []string {
	n := d.count(field, limit)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.str(field+"["+strconv.Itoa(i)+"]", "")
	}
	return list
}

// token reads a token of which the beginning may be that of the one before.
func (d *decoder) token(before string) string {
	shared := d.number("token")
	if shared > uint64(min(len(before), maxShared)) {
		d.fail("token", "shares more than the token before has")
		return ""
	}
	rest := d.sound("token")
	return d.keep(before[:shared], rest)
}

// blockSize is how many bytes of strings share one allocation, and so live as long as one of them.
const blockSize = 4096

// keep makes a string of two parts. Strings of one body share blocks, as in package wire.
func (d *decoder) keep(head string, rest []byte) string {
	size := len(head) + len(rest)
	if size == 0 {
		return ""
	}
	if d.text.Cap()-d.text.Len() < size {
		d.text = strings.Builder{}
		d.text.Grow(max(size, min(blockSize, size+len(d.b)-d.i)))
	}
	start := d.text.Len()
	d.text.WriteString(head)
	d.text.Write(rest)
	return d.text.String()[start:]
}

// opaque reads any JSON value as it stands; null is nil.
func (d *decoder) opaque(field string) json.RawMessage {
	v := bytes.Trim(d.raw(field), " \t\r\n")
	if d.fault != nil {
		return nil
	}
	if problem := wire.CheckValue(v); problem != "" {
		d.fail(field, "%s", problem)
		return nil
	}
	if string(v) == "null" {
		return nil
	}
	return v[:len(v):len(v)]
}

func (d *decoder) spell(field string) time.Duration { return time.Duration(d.signed(field)) }

func (d *decoder) moment(field string) time.Time {
	return time.UnixMilli(d.signed(field)).UTC()
}

// id reads an id. What is none, as it may stand in a report, is read all the same.
func (d *decoder) id(field string) (id task.ID) {
	if len(d.b)-d.i < 8 {
		d.fail(field, early, len(d.b))
		return id
	}
	id.Batch = int64(binary.BigEndian.Uint64(d.b[d.i:]))
	d.i += 8
	n := d.number(field)
	if n > math.MaxUint32 {
		d.fail(field, "at byte %d: a number is too large", d.i)
		return task.ID{}
	}
	id.N = int32(uint32(n))
	return id
}

// valid tells whether an id can name a task.
func valid(id task.ID) bool { return id.Batch > 0 && id.N >= 0 }
