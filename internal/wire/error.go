package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rotahq/rota/task"
)

// Error is a body that cannot be read. Nothing of it was used.
type Error struct {
	Value  bool // JSON and types are right, a value is not: 422 rather than 400
	Fields []task.FieldError
}

func (e *Error) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Location + ": " + f.Message
	}
	return strings.Join(parts, "; ")
}

// shownDepth is how many steps of a path an error names.
const shownDepth = 16

// place is one step on the way to an offset: a list element or a field.
type place struct {
	list  bool
	index int
	name  string // "" before the first name
	named bool   // the name is read, its value is not yet over
}

// locate says where in the document the byte at offset at stands, as in body.tasks[3].queue. All
// before it must have been read without a fault.
func locate(root string, b []byte, at int) string {
	var path []place
	i := 0
	for i < at {
		top := &place{}
		if len(path) > 0 {
			top = &path[len(path)-1]
		}
		switch b[i] {
		case '{', '[':
			path = append(path, place{list: b[i] == '['})
		case '}', ']':
			path = path[:max(len(path)-1, 0)]
		case ',':
			top.index++
			top.named = false
		case '"':
			end, fault := scanString(b, i)
			if fault != "" { // at is inside this string
				return render(root, path)
			}
			if !top.list && !top.named {
				top.name, top.named = shownName(b[i+1:end-1]), true
			}
			i = end
			continue
		}
		i++
	}
	if n := len(path); n > 0 && !path[n-1].list && !path[n-1].named && at < len(b) && b[at] == '"' {
		if end, fault := scanString(b, at); fault == "" {
			path[n-1].name, path[n-1].named = shownName(b[at+1:end-1]), true
		}
	}
	return render(root, path)
}

func render(root string, path []place) string {
	for n, p := range path {
		switch {
		case n == shownDepth:
			return root + "…"
		case p.list:
			root += "[" + strconv.Itoa(p.index) + "]"
		case p.named:
			root += "." + p.name
		}
	}
	return root
}

// shownName is a field's name as an error shows it: quoted unless plain, and cut.
func shownName(raw []byte) string {
	plain := len(raw) > 0 && len(raw) <= 40
	for _, c := range raw {
		plain = plain &&
			(c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' &&
				c <= 'Z')
	}
	if plain {
		return string(raw)
	}
	return fmt.Sprintf("%.40q", raw)
}
