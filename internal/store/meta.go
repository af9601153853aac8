package store

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Meta are the short strings that a task carries, as stores keep them: a JSON object without
// spaces, whose names ascend and in which only " and \ are escaped; "" = none. So equal strings
// have equal texts, databases can read them, and one of them is in a text if its own text is.
type Meta string

// MetaOf is the text of strings that limits.CheckMeta finds nothing wrong with.
func MetaOf(list map[string]string) Meta {
	if len(list) == 0 {
		return ""
	}
	b := make([]byte, 0, 64)
	for i, key := range slices.Sorted(maps.Keys(list)) {
		b = append(b, "{,"[min(i, 1)])
		b = appendQuoted(b, key)
		b = append(b, ':')
		b = appendQuoted(b, list[key])
	}
	return Meta(append(b, '}'))
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// Strings are those of a text that MetaOf made; nil = none. Of another text nothing is read.
func (m Meta) Strings() (list map[string]string) {
	if m != "" && json.Unmarshal([]byte(m), &list) != nil {
		return nil
	}
	return list
}

// Has tells whether all strings of another text are among these. A quote within a string is
// escaped and no name has one, so the text of a pair begins where a name does, and ends where its
// string does.
func (m Meta) Has(want Meta) bool {
	for pair := range want.pairs {
		if !strings.Contains(string(m), pair) {
			return false
		}
	}
	return true
}

// pairs are the texts of the names with their strings.
func (m Meta) pairs(yield func(string) bool) {
	text := strings.Trim(string(m), "{}")
	start, inside := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			inside = !inside
		case c == ',' && !inside:
			if !yield(text[start:i]) {
				return
			}
			start = i + 1
		}
	}
	if start < len(text) {
		yield(text[start:])
	}
}
