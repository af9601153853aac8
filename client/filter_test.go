package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// filled sets one field of a filter or a change to a value that selects, or says, something.
func filled(t *testing.T, v reflect.Value, field int) {
	t.Helper()
	f := v.Field(field)
	switch f.Interface().(type) {
	case time.Time:
		f.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		return
	case map[string]string:
		f.Set(reflect.ValueOf(map[string]string{"x": "y"}))
		return
	case []string:
		f.Set(reflect.ValueOf([]string{"x"}))
		return
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString("x")
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Int:
		f.SetInt(7)
	default:
		t.Fatalf("no value for field %s of %v", v.Type().Field(field).Name, v.Type())
	}
}

// TestEachFieldOfAFilterIsSentOrRefused: a field that a call leaves out in silence would have it
// take what was not meant.
func TestEachFieldOfAFilterIsSentOrRefused(t *testing.T) {
	var sent string
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.URL.RawQuery + string(body)
		io.WriteString(w, `{"items":[],"next":""}`)
	})
	c := newClient(t, Config{Servers: []string{url}})
	ctx := t.Context()
	for name, call := range map[string]func(f any) error{
		"Tasks": func(f any) error {
			_, _, err := c.Tasks(ctx, *f.(*TaskFilter), "", 0)
			return err
		},
		"CancelAll": func(f any) error {
			_, err := c.CancelAll(ctx, *f.(*TaskFilter), Bulk{})
			return err
		},
		"RetryAll": func(f any) error {
			_, err := c.RetryAll(ctx, *f.(*TaskFilter), Bulk{})
			return err
		},
		"Fires": func(f any) error {
			_, _, err := c.Fires(ctx, "s", *f.(*FireFilter), "", 0)
			return err
		},
		"Events": func(f any) error {
			_, _, err := c.Events(ctx, *f.(*EventFilter), "", 0)
			return err
		},
		"Assignments": func(f any) error {
			_, _, err := c.Assignments(ctx, "g", *f.(*PlacementFilter), "", 0)
			return err
		},
	} {
		blank := func() any {
			switch name {
			case "Fires":
				return new(FireFilter)
			case "Events":
				return new(EventFilter)
			case "Assignments":
				return new(PlacementFilter)
			}
			return new(TaskFilter)
		}
		if err := call(blank()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		empty := sent
		kind := reflect.TypeOf(blank()).Elem()
		for i := range kind.NumField() {
			f := blank()
			filled(t, reflect.ValueOf(f).Elem(), i)
			before := calls.Load()
			err := call(f)
			switch {
			case err == nil && sent != empty:
			case errors.Is(err, ErrInvalid) && calls.Load() == before &&
				strings.Contains(err.Error(), "."+strings.ToLower(kind.Field(i).Name)):
			case name == "Tasks" && kind.Field(i).Name == "All": // a list takes all there is anyway
			default:
				t.Errorf("%s with %s: sent %q, %v", name, kind.Field(i).Name, sent, err)
			}
		}
	}
}

// A field that the API is not told of would change nothing, without an error.
func TestEachFieldOfAChangeIsSent(t *testing.T) {
	eachField(t, func(c QueueChange) any { return written(t, c) })
	eachField(t, func(c GroupChange) any { return written(t, c) })
	eachField(t, func(c ScheduleChange) any {
		body, err := c.append(nil, "", "body")
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	})
}

// written is a value in JSON.
func written(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachField gives one field of a change after the other, and of those that are changes themselves
// one of theirs.
func eachField[C any](t *testing.T, apply func(C) any) {
	none := apply(*new(C))
	kind := reflect.TypeFor[C]()
	for i := range kind.NumField() {
		f := kind.Field(i)
		gives := []func(reflect.Value){func(v reflect.Value) { v.Set(reflect.New(f.Type.Elem())) }}
		switch {
		case f.Type.Kind() == reflect.Slice:
			gives[0] = func(v reflect.Value) { v.SetBytes([]byte("5")) }
		case strings.HasSuffix(f.Type.Elem().Name(), "Change"):
			gives = nil
			for k := range f.Type.Elem().NumField() {
				gives = append(gives, func(v reflect.Value) {
					v.Set(reflect.New(f.Type.Elem()))
					v.Elem().Field(k).Set(reflect.New(v.Elem().Field(k).Type().Elem()))
				})
			}
		}
		for k, give := range gives {
			var c C
			give(reflect.ValueOf(&c).Elem().Field(i))
			if reflect.DeepEqual(apply(c), none) {
				t.Errorf("%v.%s (%d) changes nothing", kind, f.Name, k)
			}
		}
	}
}
