package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// text reads a string, decoded. It is part of the body when nothing in it is escaped.
func (d *decoder) text(what string) []byte {
	if d.peek() != '"' {
		d.failType(what)
		return nil
	}
	start := d.i + 1
	if end := scanPlain(d.b, start); end < len(d.b) && d.b[end] == '"' {
		d.i = end + 1
		return d.b[start:end]
	}
	return d.escaped()
}

// escaped is text for a string with escapes or faults.
func (d *decoder) escaped() []byte {
	start := d.i
	end, fault := scanString(d.b, start)
	if fault != "" {
		d.failAt(end, fault)
		return nil
	}
	text, fault := unescape(d.b[start+1 : end-1])
	if fault != "" {
		d.fail(start, "%s", fault)
		return nil
	}
	d.i = end
	return text
}

// blockSize is how many bytes of strings share one allocation, and so live as long as one of them.
const blockSize = 4096

// keep makes a string of b. Strings of one body share blocks: a builder gives them out without
// copying again, and is left to them when it is full.
func (d *decoder) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if d.strings.Cap()-d.strings.Len() < len(b) {
		d.strings.Reset()
		d.strings.Grow(max(len(b), min(blockSize, len(b)+len(d.b)-d.i)))
	}
	start := d.strings.Len()
	d.strings.Write(b)
	return d.strings.String()[start:]
}

// str reads a string; before is the one that is probably repeated.
func (d *decoder) str(before string) string {
	b := d.text("a string")
	if string(b) == before {
		return before
	}
	return d.keep(b)
}

// opaque reads any value as it stands; null is nil.
func (d *decoder) opaque() json.RawMessage {
	if v := d.skip(); string(v) != "null" {
		return v
	}
	return nil
}

// CheckValue says why v can't stand in a message as it is, or "" when it can: it must be one JSON
// value in UTF-8, nested no deeper than any message may be, with nothing but space around it.
// Whoever stores or sends a context, a result or a spec that no decoder of this package has read
// asks it: in a message such a value would spoil its neighbours.
func CheckValue(v []byte) string {
	if !utf8.Valid(v) {
		return "must be a JSON value: not valid UTF-8"
	}
	end, fault := scanValue(v, 0)
	if fault == "" {
		if end = skipSpace(v, end); end < len(v) {
			fault = "expected nothing behind the value"
		}
	}
	if fault != "" {
		return fmt.Sprintf("must be a JSON value: at byte %d: %s", end, fault)
	}
	return ""
}

// CheckContexts names the submissions whose contexts CheckValue refuses, by their places in the
// body of POST /v1/tasks. The error is a *task.InvalidError with at most limits.MaxFaults places.
func CheckContexts(tasks []task.Submission) error {
	var e task.InvalidError
	for i := range tasks {
		if len(e.Fields) == limits.MaxFaults {
			break
		}
		problem := ""
		if err := tasks[i].Err; err != nil {
			problem = err.Error()
		} else if v := tasks[i].Context; len(v) > 0 {
			problem = CheckValue(v)
		}
		if problem != "" {
			e.Add(fmt.Sprintf("body.tasks[%d].context", i), "%s", problem)
		}
	}
	return e.Err()
}

// CheckSpecs is CheckContexts for the specs of jobs, whose list stands at location.
func CheckSpecs(location string, jobs []task.Job) error {
	var e task.InvalidError
	for i := range jobs {
		if v := jobs[i].Spec; len(v) > 0 && len(e.Fields) < limits.MaxFaults {
			if problem := CheckValue(v); problem != "" {
				e.Add(fmt.Sprintf("%s[%d].spec", location, i), "%s", problem)
			}
		}
	}
	return e.Err()
}

func (d *decoder) skip() []byte {
	d.peek()
	end, fault := scanValue(d.b, d.i)
	if fault != "" {
		d.failAt(end, fault)
		return nil
	}
	v := d.b[d.i:end:end]
	d.i = end
	return v
}

// number reads a number's text.
func (d *decoder) number(what string) []byte {
	if c := d.peek(); c != '-' && c-'0' > 9 {
		d.failType(what)
		return nil
	}
	start := d.i
	end, fault := scanNumber(d.b, start)
	if fault != "" {
		d.failAt(end, fault)
		return nil
	}
	d.i = end
	return d.b[start:end]
}

func (d *decoder) integer() int {
	b := d.number("an integer")
	if d.fault != "" {
		return 0
	}
	at := d.i - len(b)
	v, err := strconv.ParseInt(string(b), 10, strconv.IntSize)
	if err == nil {
		return int(v)
	}
	for _, c := range b {
		if c == '.' || c|0x20 == 'e' {
			d.fail(at, "expected an integer, in digits only")
			return 0
		}
	}
	d.failValue(at, "must be %d to %d", math.MinInt, math.MaxInt)
	return 0
}

func (d *decoder) float() float64 {
	b := d.number("a number")
	if d.fault != "" {
		return 0
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		d.failValue(d.i-len(b), "is too large")
		return 0
	}
	return v
}

func (d *decoder) boolean() bool {
	switch c := d.peek(); c {
	case 't', 'f':
		d.skip()
		return c == 't'
	}
	d.failType("true or false")
	return false
}

func (d *decoder) duration() time.Duration {
	d.peek()
	at := d.i
	b := d.text(`a duration in quotes, like "1m30s"`)
	if d.fault != "" {
		return 0
	}
	v, err := view.ParseDuration(string(b))
	if err != nil {
		d.failValue(at, `must be a duration like "1m30s"`)
	}
	return v
}

func (d *decoder) time() time.Time {
	d.peek()
	at := d.i
	b := d.text(`a time in quotes, like "2006-01-02T15:04:05.000Z"`)
	if d.fault != "" {
		return time.Time{}
	}
	for i := range d.moments {
		if m := &d.moments[i]; len(b) > 0 && string(b) == string(m.text) {
			d.latest = i
			return m.at
		}
	}
	t, ok := parseTime(b)
	if !ok {
		d.failValue(at, `must be a time by RFC 3339, like "2006-01-02T15:04:05.000Z"`)
	} else if t.Before(limits.MinTime) || !t.Before(limits.MaxTime) {
		d.failValue(at, "must lie in the years 2000 to 2199")
	}
	d.latest = 1 - d.latest
	d.moments[d.latest] = moment{t, b}
	return t
}

// parseTime reads RFC 3339. The form that appendTime writes, for days that every month has, is read
// here, four times as fast; everything else by package time.
func parseTime(b []byte) (t time.Time, ok bool) {
	if fits(b, "0000-00-00T00:00:00.000Z") {
		year, month, day := number(b[:4]), number(b[5:7]), number(b[8:10])
		hour, minute, second := number(b[11:13]), number(b[14:16]), number(b[17:19])
		if month > 0 && month <= 12 && day > 0 && day <= 28 && hour < 24 && minute < 60 &&
			second < 60 {
			return time.Date(year, time.Month(month), day, hour, minute, second,
				number(b[20:23])*1e6, time.UTC), true
		}
	}
	err := t.UnmarshalText(b)
	return t.UTC(), err == nil
}

func (d *decoder) id() task.ID {
	d.peek()
	at := d.i
	b := d.text("a task id in quotes")
	if d.fault != "" {
		return task.ID{}
	}
	id, err := task.ParseID(string(b))
	if err != nil {
		d.failValue(at, "is not a task id")
	}
	return id
}

// fits tells whether b is form with other digits.
func fits(b []byte, form string) bool {
	if len(b) != len(form) {
		return false
	}
	for i, c := range b {
		if c != form[i] && (form[i] != '0' || c-'0' > 9) {
			return false
		}
	}
	return true
}

func number(digits []byte) (n int) {
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}
