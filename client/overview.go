package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/rotahq/rota/view"
)

// Overview reads how everything stands, as the node that answers knows it.
func (c *Client) Overview(ctx context.Context) (view.Overview, error) {
	var o view.Overview
	if err := c.get(ctx, request{path: "/v1/overview"}, &o); err != nil {
		return view.Overview{}, fmt.Errorf("read overview: %w", err)
	}
	return o, nil
}

// FollowOverview yields how everything stands, at first and then whenever it changes, at most once
// a second. Streams that break are followed by others, perhaps of another node; it ends with ctx,
// or an error that no other try would mend, which is the last that it yields.
func (c *Client) FollowOverview(ctx context.Context) iter.Seq2[view.Overview, error] {
	return func(yield func(view.Overview, error) bool) {
		var known map[string]any // nil = this stream has told nothing yet
		s := follower{client: c, path: "/v1/overview/stream"}
		s.over = func() (bool, error) { return false, nil }
		s.readTyped = func(kind string, data []byte) error {
			if kind == "snapshot" {
				known = map[string]any{}
			}
			o, err := patched(known, data)
			if err != nil {
				return fmt.Errorf("read overview: %w", err)
			}
			if !yield(o, nil) {
				return errEnough
			}
			return nil
		}
		if err := s.run(ctx); !errors.Is(err, errEnough) {
			yield(view.Overview{}, fmt.Errorf("follow overview: %w", err))
		}
	}
}

// patched is the overview that a merge patch makes of what is known; known becomes that.
func patched(known map[string]any, patch []byte) (o view.Overview, err error) {
	if known == nil {
		return o, errors.New("a patch came before there was anything to patch")
	}
	d := json.NewDecoder(bytes.NewReader(patch))
	d.UseNumber()
	var change map[string]any
	if err := d.Decode(&change); err != nil {
		return o, err
	}
	merge(known, change)
	text, err := json.Marshal(known)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// merge applies a merge patch (RFC 7396): objects are merged, null removes, all else replaces.
func merge(target, patch map[string]any) {
	for name, value := range patch {
		sub, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case isObject:
			inner, ok := target[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				target[name] = inner
			}
			merge(inner, sub)
		default:
			target[name] = value
		}
	}
}
