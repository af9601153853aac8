package model

import (
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// Copy is a model that stands as this one does at this moment, with nothing shared: what a standby
// has of it.
func (m *Model) Copy() *Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := &Model{}
	duplicate(reflect.ValueOf(is).Elem(), reflect.ValueOf(m).Elem(), pointers{})
	return is
}

// Become makes the model stand as a copy does, which is not used any more. What was written since
// is lost, as in a failover from a primary to a standby that did not have it; numbers that were
// given out since are given out again.
func (m *Model) Become(standby *Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	duplicate(reflect.ValueOf(m).Elem(), reflect.ValueOf(standby).Elem(), pointers{})
}

// pointers are the copies of what pointers lead to, by pointer: what two lead to stays one.
type pointers map[any]reflect.Value

// duplicate makes of is, which is addressable, a deep copy of was. By reflection, so that a table
// that is new is not forgotten; unsafe, because reflection changes no field that is not exported.
func duplicate(is, was reflect.Value, seen pointers) {
	switch was.Kind() {
	case reflect.Pointer:
		if was.IsNil() {
			is.SetZero()
			return
		}
		known, ok := seen[was.Interface()]
		if !ok {
			known = reflect.New(was.Type().Elem())
			seen[was.Interface()] = known
			duplicate(known.Elem(), was.Elem(), seen)
		}
		is.Set(known)
	case reflect.Map:
		if was.IsNil() {
			is.SetZero()
			return
		}
		is.Set(reflect.MakeMapWithSize(was.Type(), was.Len()))
		for entry := was.MapRange(); entry.Next(); {
			value := reflect.New(was.Type().Elem()).Elem()
			duplicate(value, addressable(entry.Value()), seen)
			is.SetMapIndex(entry.Key(), value)
		}
	case reflect.Slice:
		if was.IsNil() {
			is.SetZero()
			return
		}
		is.Set(reflect.MakeSlice(was.Type(), was.Len(), was.Len()))
		fallthrough
	case reflect.Array:
		for i := range was.Len() {
			duplicate(is.Index(i), was.Index(i), seen)
		}
	case reflect.Struct:
		switch was.Type() {
		case reflect.TypeFor[time.Time]():
			is.Set(was)
			return
		case reflect.TypeFor[sync.Mutex]():
			return
		}
		for i := range was.NumField() {
			duplicate(open(is.Field(i)), open(was.Field(i)), seen)
		}
	case reflect.Interface, reflect.Chan:
		panic("copy a " + was.Type().String() + ": the model has no such tables")
	default: // functions are no state
		is.Set(was)
	}
}

// addressable is a value that stands in a variable.
func addressable(v reflect.Value) reflect.Value {
	in := reflect.New(v.Type()).Elem()
	in.Set(v)
	return in
}

// open is a field that may be changed, exported or not.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}
