package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/rotahq/rota/view"
)

// EventFilter selects events. Zero fields select everything.
type EventFilter struct {
	Since time.Time // those from this time on
	Kinds []string  // those of these kinds; "node.*" is all that begin with "node."
}

func (f *EventFilter) values() url.Values {
	q := url.Values{}
	if !f.Since.IsZero() {
		q.Set("since", moment(f.Since))
	}
	if len(f.Kinds) > 0 {
		q.Set("kind", strings.Join(f.Kinds, ","))
	}
	return q
}

// Events lists events, oldest first: at most limit (0 = 100, at most 1,000) from cursor on ("" =
// the start). next is the cursor of the following page, "" at the end. A page may be short, even
// empty, before it.
func (c *Client) Events(
	ctx context.Context, f EventFilter, cursor string, limit int,
) (events []view.Event, next string, err error) {
	var p page[view.Event]
	if err := c.get(
		ctx, request{path: "/v1/events", query: paged(f.values(), cursor, limit)}, &p,
	); err != nil {
		return nil, "", fmt.Errorf("list events: %w", err)
	}
	return p.Items, p.Next, nil
}

// FollowEvents yields events as they come, from cursor on; "" begins at the filter's Since, and
// without that with what happens next. Streams that break are followed by others, as with
// FollowLines; it ends with ctx, or an error that no other try would mend, which is the last that
// it yields.
func (c *Client) FollowEvents(
	ctx context.Context, f EventFilter, cursor string,
) iter.Seq2[view.Event, error] {
	return func(yield func(view.Event, error) bool) {
		s := follower{client: c, path: "/v1/events/stream", query: f.values(), cursor: cursor}
		s.over = func() (bool, error) { return false, nil }
		s.read = func(data []byte) error {
			var e view.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("read event: %w: %w", errUnreadable, err)
			}
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		}
		if err := s.run(ctx); !errors.Is(err, errEnough) {
			yield(view.Event{}, fmt.Errorf("follow events: %w", err))
		}
	}
}
