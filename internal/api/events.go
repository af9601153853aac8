package api

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/view"
)

// Events reads what happened. Errors are those of an [Engine].
type Events interface {
	// Events reads on in the log by seq. A page may be short, even empty, before the end, which is
	// where Next is After.
	Events(context.Context, store.EventQuery) (store.EventPage, error)
}

// eventOf is the event as it is shown.
func eventOf(e *store.Event) view.Event {
	fields := e.Fields
	if fields == nil {
		fields = map[string]string{}
	}
	return view.Event{
		Seq: e.Seq, Time: timeAt(e.Time), Kind: e.Kind, Subject: e.Subject, Text: e.Text,
		Fields: fields,
	}
}

// EventChoice says which events. It is exported for huma.
type EventChoice struct {
	Since instant  `query:"since" doc:"those from this time on"`
	Kinds []string `query:"kind" maxItems:"100" doc:"those of these kinds, separated by commas; node.* is all that begin with node. and left out all"`
}

func (c *EventChoice) query(after int64, limit int) store.EventQuery {
	return store.EventQuery{After: after, Since: c.Since.micros(), Kinds: c.Kinds, Limit: limit}
}

// streamIn asks for events as they come.
type streamIn struct {
	Caller
	EventChoice
	Cursor string `query:"cursor" doc:"as the list's: the seq behind which to begin"`
	LastID string `header:"Last-Event-ID" doc:"the id of the last event that was read: the stream goes on behind it"`
}

// eventCalls are the calls that read what happened.
type eventCalls struct {
	door   *API
	events Events
}

func (c *eventCalls) register() {
	tags := []string{"Events"}
	operation(c.door, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: tags,
		Summary: "List what happened, oldest first",
		Description: "The log is kept for 30 days. Its seqs have no gap, but where the store was restored from a backup (store.restored), and are in the order in which things were written down, so whoever has read up to " +
			"one has missed nothing before it. A page may be short, even empty, while there is a next one.",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "stream-events", Method: http.MethodGet, Path: "/v1/events/stream", Tags: tags,
		Summary: "Follow what happens",
		Description: "Server-sent events: the data of each is an event as in the list, its id the seq. Begins behind Last-Event-ID, else behind " +
			"cursor, else at since, else with what happens next. A comment comes when nothing else did for 15 s.",
		Responses: map[string]*huma.Response{"200": {
			Description: http.StatusText(http.StatusOK),
			Content: map[string]*huma.MediaType{
				"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
			},
		}},
	}, c.stream)
}

func (c *eventCalls) list(ctx context.Context, in *struct {
	Paging
	EventChoice
}) (*listed[view.Event], error) {
	after, err := parseSeq("query.cursor", in.Cursor)
	if err != nil {
		return nil, err
	}
	if err := c.known(ctx, "query.cursor", after); err != nil {
		return nil, err
	}
	out := &listed[view.Event]{list[view.Event]{Items: []view.Event{}}}
	for range maxLooks {
		page, err := c.events.Events(ctx, in.query(after, in.Limit-len(out.Body.Items)))
		if err != nil {
			return nil, err
		}
		for i := range page.Events {
			out.Body.Items = append(out.Body.Items, eventOf(&page.Events[i]))
		}
		if page.Next == after { // the end
			return out, nil
		}
		if after = page.Next; len(out.Body.Items) == in.Limit {
			break
		}
	}
	out.Body.Next = strconv.FormatInt(after, 10)
	return out, nil
}

// maxLooks is how often the log is looked into for one page, when much of it is not selected.
const maxLooks = 10

// parseSeq reads the seq behind which a list or a stream goes on; "" is the start.
func parseSeq(location, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, wrong(location, "must be the seq of an event")
	}
	return after, nil
}

// newest is the seq of the last event that there ever was.
func (c *eventCalls) newest(ctx context.Context) (int64, error) {
	page, err := c.events.Events(ctx, store.EventQuery{Since: math.MaxInt64, Limit: 1})
	return page.Next, err
}

// known refuses to go on behind an event that never was: the reader's cursor is of another store,
// or of one that was put back to what it was before, and would miss all that happens up to there.
func (c *eventCalls) known(ctx context.Context, location string, after int64) error {
	if after == 0 {
		return nil
	}
	page, err := c.events.Events(ctx, store.EventQuery{
		After: after - 1, Since: math.MaxInt64, Limit: 1,
	})
	if err != nil || page.Next >= after {
		return err
	}
	newest, err := c.newest(ctx)
	if err != nil {
		return err
	}
	return wrong(location, "is behind the last event of this store, which is %d: begin anew",
		newest)
}

func (c *eventCalls) stream(ctx context.Context, in *streamIn) (*huma.StreamResponse, error) {
	var after int64
	var err error
	switch {
	case in.LastID != "":
		if after, err = parseSeq("header.Last-Event-ID", in.LastID); err == nil {
			err = c.known(ctx, "header.Last-Event-ID", after)
		}
	case in.Cursor != "":
		if after, err = parseSeq("query.cursor", in.Cursor); err == nil {
			err = c.known(ctx, "query.cursor", after)
		}
	case in.Since.micros() == 0: // from the newest on: the log is read for what will be
		after, err = c.newest(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := c.door.follows.begin(in.key()); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer c.door.follows.end(in.key())
		_, w := humago.Unwrap(hctx)
		c.tail(ctx, w.(*answer), in.query(after, limits.MaxHold))
	}}, nil
}

// tail streams events as they come. It begins with the id of the last one that the reader does not
// need, so that one whose stream breaks before the first event misses nothing either. Errors end
// the stream; the reader comes back.
func (c *eventCalls) tail(ctx context.Context, w *answer, q store.EventQuery) {
	event := appendSeq(nil, q.After)
	event = append(event, '\n')
	control := startStream(w)
	said := time.Now()
	for !w.broken {
		page, err := c.events.Events(ctx, q)
		if err != nil {
			return
		}
		for i := range page.Events {
			e := eventOf(&page.Events[i])
			event = appendSeq(event, e.Seq)
			event = append(append(event, "data: "...), encoded(e)...)
			event = append(event, "\n\n"...)
		}
		if len(event) == 0 && time.Since(said) >= quiet {
			event = append(event, ":\n\n"...)
		}
		if len(event) > 0 {
			said = time.Now()
			w.limit()
			w.Write(event)
			control.Flush()
			event = event[:0]
		}
		if page.Next != q.After {
			if q.After = page.Next; c.door.over(ctx, w.epoch) {
				return
			}
			continue
		}
		if !c.door.pause(ctx, w.epoch, c.door.conf.Poll) {
			return
		}
	}
}

func appendSeq(b []byte, seq int64) []byte {
	return append(strconv.AppendInt(append(b, "id: "...), seq, 10), '\n')
}
