package app

import (
	"context"
	"reflect"
)

// Setting is what a set command does to a thing that has a name: it changes it or, when no flag
// says what, reads it. So whoever only looks creates nothing by a slip in the name.
type Setting[Change, Thing any] struct {
	Kind    string // of the thing, as "queue"
	Read    func(ctx context.Context, name string) (Thing, error)
	Put     func(ctx context.Context, name string, change Change) (Thing, error)
	Creates string // how one comes to be, for whoever looks for one that is not there
}

// Apply puts a change, if it is any, and returns the thing as it is then.
func (s Setting[Change, Thing]) Apply(
	ctx context.Context, name string, change Change,
) (Thing, error) {
	if !reflect.ValueOf(change).IsZero() {
		return s.Put(ctx, name, change)
	}
	thing, err := s.Read(ctx, name)
	return thing, Absent(err, s.Kind, name, s.Creates)
}
