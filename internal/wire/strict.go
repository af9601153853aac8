package wire

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Strict decodes b into v, a non-nil pointer, with encoding/json, but as strictly as the
// hand-written messages are read. What v declares as json.RawMessage or as an interface is opaque;
// null is taken for nothing else but a Nullable: whoever has nothing to say leaves the field out.
// Errors are *Error.
func Strict(b []byte, v any) error {
	var d decoder
	d.begin(b)
	d.typed(reflect.TypeOf(v).Elem())
	if err := d.end("body"); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		panic(fmt.Errorf("decode %T: %w", v, err)) // typed has tried every value on its type
	}
	return nil
}

var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// typed reads the next value as one of type t.
func (d *decoder) typed(t reflect.Type) {
	if t == rawType {
		d.skip()
		return
	}
	if t.Implements(nullable) {
		if d.peek() == 'n' {
			d.skip()
		} else {
			d.typed(reflect.Zero(t).Interface().(interface{ of() reflect.Type }).of())
		}
		return
	}
	if t.Kind() == reflect.Interface {
		d.anything()
		return
	}
	if t.Kind() == reflect.Pointer {
		if d.peek() == 'n' {
			d.null(t.Elem())
			return
		}
		d.typed(t.Elem())
		return
	}
	if p := reflect.PointerTo(t); p.Implements(unmarshaler) || p.Implements(textUnmarshaler) {
		d.leaf(t)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		names, types := fieldsOf(t)
		for o := d.object(names); o.next(); {
			d.typed(types[o.name])
		}
	case reflect.Map:
		seen := map[string]bool{}
		for o := d.object(nil); o.nextAny(); {
			if seen[o.name] {
				d.fail(o.at, "comes twice")
			}
			seen[o.name] = true
			d.typed(t.Elem())
		}
	case reflect.Slice:
		for a := d.array(len(d.b)); a.next(); {
			d.typed(t.Elem())
		}
	default:
		d.leaf(t)
	}
}

// anything reads a value that encoding/json will decode as it likes.
func (d *decoder) anything() {
	d.peek()
	at := d.i
	var v any
	if b := d.skip(); d.fault == "" && json.Unmarshal(b, &v) != nil {
		d.failValue(at, "holds a number that is too large")
	}
}

// null refuses a null where the field could have been left out.
func (d *decoder) null(t reflect.Type) {
	at := d.i
	if d.skip(); d.fault == "" {
		d.failValue(at, "must be %s, not null", typeWord(t))
	}
}

// leaf reads a value that has no fields of ours, and tries it on a variable of its type.
func (d *decoder) leaf(t reflect.Type) {
	c := d.peek()
	at := d.i
	switch {
	case c == 'n', c != '"' && reflect.PointerTo(t).Implements(textUnmarshaler):
		d.failType(typeWord(t))
	case c == '"':
		d.text("a string") // for its stricter rules
	default:
		d.skip()
	}
	if d.fault != "" {
		return
	}
	v := reflect.New(t).Interface()
	err := json.Unmarshal(d.b[at:d.i], v)
	if err == nil {
		return
	}
	switch v.(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		d.failValue(at, "%v", err)
	default:
		d.fail(at, "expected %s", typeWord(t))
	}
}

// fieldsOf are the names that encoding/json gives to the fields of struct t, and their types.
func fieldsOf(t reflect.Type) (names []string, types map[string]reflect.Type) {
	types = map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous && name == "" || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
		types[name] = f.Type
	}
	return names, types
}

// typeWord is what JSON calls a value of type t.
func typeWord(t reflect.Type) string {
	if p := reflect.PointerTo(t); p.Implements(unmarshaler) || p.Implements(textUnmarshaler) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer in range"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a string"
}
