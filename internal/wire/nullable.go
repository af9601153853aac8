package wire

import (
	"encoding/json"
	"reflect"
)

// Nullable is a field of a body in which null says something: that what is there is taken away.
// Elsewhere null is refused; see Strict. The zero Nullable is a field that was left out.
type Nullable[T any] struct {
	Given bool
	Value T // the zero value for null
}

var nullable = reflect.TypeFor[interface{ of() reflect.Type }]()

// of is the type of what is not null.
func (Nullable[T]) of() reflect.Type { return reflect.TypeFor[T]() }

// UnmarshalJSON is part of json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(b []byte) error {
	n.Given = true
	return json.Unmarshal(b, &n.Value)
}

// Set puts what was given, the zero value for null, where it belongs.
func (n Nullable[T]) Set(to *T) {
	if n.Given {
		*to = n.Value
	}
}
