package limits

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// What the strings that tasks carry (task.Submission.Meta) may be.
const (
	MaxMeta      = 16      // strings
	MaxMetaKey   = 64      // bytes of a name
	MaxMetaValue = 256     // bytes of a string
	MaxMetaSize  = 2 << 10 // bytes of all of a task as JSON
)

// CheckMeta adds to e what is wrong with the strings that a task is to carry, or that a filter asks
// for, under location.
func CheckMeta(meta map[string]string, e *task.InvalidError, location string) {
	if len(meta) > MaxMeta {
		e.Add(location, "%d strings are too many: at most %d", len(meta), MaxMeta)
		return
	}
	size := 1 // as JSON: a brace, then of each string quotes, a colon and a comma or a brace
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		value := meta[key]
		if len(key) > MaxMetaKey || !ValidName(key) {
			e.Add(location+"."+cut(strings.ToValidUTF8(key, string(utf8.RuneError))),
				"names are 1 to %d bytes: letters, digits and marks of any script or . - _ : @ +, "+
					"and begin with a letter, a digit or _", MaxMetaKey)
		} else if !ValidText(value, MaxMetaValue) {
			e.Add(location+"."+key, "must be at most %d bytes of printable UTF-8", MaxMetaValue)
		}
		size += len(key) + len(value) + len(`"":"",`) + strings.Count(value, `"`) +
			strings.Count(value, `\`)
	}
	if size > MaxMetaSize {
		e.Add(location, "%d bytes as JSON are too many: at most %d", size, MaxMetaSize)
	}
}
