package wire

import (
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/limits"
)

// appendStringMap appends a member that is an object of strings, in the order of their names; none
// leaves it out.
func appendStringMap(b []byte, member string, list map[string]string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, member...)
	for i, name := range slices.Sorted(maps.Keys(list)) {
		b = append(b, "{,"[min(i, 1)])
		b = appendString(b, name)
		b = append(b, ':')
		b = appendString(b, list[name])
	}
	return append(b, '}')
}

// stringMap reads an object whose names are the caller's own, of at most limit strings.
func (d *decoder) stringMap(limit int, what string) map[string]string {
	list := map[string]string{}
	for o := d.object(nil); o.nextAny(); {
		at, name := o.at, o.name
		if _, twice := list[name]; twice {
			d.fail(at, "comes twice")
		}
		if len(list) == limit {
			d.failValue(at, "more than %d %s", limit, what)
		}
		list[name] = d.str("")
	}
	return list
}

// meta reads the strings of a task; nil = none.
func (d *decoder) meta() map[string]string {
	list := d.stringMap(limits.MaxMeta, "strings")
	if len(list) == 0 {
		return nil
	}
	return list
}
