package overview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/view"
)

// Told is an overview as it is written: its members in JSON, in the order of view.Overview's
// fields. All overviews have the same members.
type Told []member

type member struct {
	name  string
	value json.RawMessage
}

// Tell writes an overview.
func Tell(o view.Overview) (Told, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode overview: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var told Told
	for _, err = d.Token(); err == nil && d.More(); {
		var name json.Token
		m := member{}
		if name, err = d.Token(); err == nil {
			m.name = name.(string) // the decoder says so of what stands before a colon
			err = d.Decode(&m.value)
		}
		told = append(told, m)
	}
	if err != nil {
		return nil, fmt.Errorf("take overview apart: %w", err)
	}
	return told, nil
}

// Members whose values depend on when they are written.
const (
	memberAt  = "at"
	memberAge = "age"
)

// staleAfter is how old an overview may be without saying so.
const staleAfter = 3 * time.Second

// Aged is the overview as it is written when it is so old.
func (t Told) Aged(age time.Duration) Told {
	if age = age.Truncate(time.Second); age < staleAfter {
		age = 0
	}
	aged := slices.Clone(t)
	for i := range aged {
		if aged[i].name == memberAge {
			aged[i].value = json.RawMessage(`"` + age.String() + `"`)
		}
	}
	return aged
}

// Patch is the JSON merge patch (RFC 7396) that makes now of before: the members that are others,
// whole; empty = none is. What is read anew and found the same has another time, which alone is
// worth a patch only when moved says so.
//
// A member that is null now is null in the patch, by which a reader removes it: null and missing
// are one to a reader of overviews.
func Patch(before, now Told, moved bool) (patch Told) {
	for i, m := range now {
		if !bytes.Equal(before[i].value, m.value) {
			patch = append(patch, m)
		}
	}
	if len(patch) == 1 && patch[0].name == memberAt && !moved {
		return nil
	}
	return patch
}

// Append appends the members as a JSON object, in one line.
func (t Told) Append(b []byte) []byte {
	b = append(b, '{')
	for i, m := range t {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), m.name...), `":`...)
		b = append(b, m.value...)
	}
	return append(b, '}')
}

// Size is about how many bytes that takes.
func (t Told) Size() (n int64) {
	for _, m := range t {
		n += int64(len(m.name) + len(m.value) + 4)
	}
	return n
}
