package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotahq/rota/internal/logshare"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// lineItem is a line of a log.
type lineItem struct {
	Time   instant `json:"time" nullable:"true"`
	Stream string  `json:"stream" doc:"stdout, stderr, or a word of the handler's own"`
	Text   string  `json:"text"`
}

// linesOut is a page of a log.
type linesOut struct {
	Items []lineItem `json:"items" nullable:"false"`
	Next  string     `json:"next" doc:"cursor of the next page; empty when there is none yet"`
	End   string     `json:"end" doc:"cursor behind the last line of this page, to look again later"`
}

// LogReading asks for a page, or follows. It is exported for huma.
type LogReading struct {
	Caller
	Paging
	Follow bool   `query:"follow" doc:"stream lines as they come"`
	LastID string `header:"Last-Event-ID" doc:"with follow: the id of the last event that was read; counts more than cursor"`
}

// textLog is the log of something.
type textLog struct {
	read  func(ctx context.Context, from int64, limit int) (store.LogPage, error)
	final func(context.Context) (bool, error) // whether nothing will come but what is on its way
}

// logAbout is what the document says of every log.
const logAbout = "A log keeps about 1 MiB; the middle goes first. With follow the answer is a stream of server-sent events: the data of each is " +
	"a line as in a page, its id the cursor behind it. A comment comes when nothing else did for 15 s. "

// logAnswers describes what reading a log answers.
func (a *API) logAnswers() map[string]*huma.Response {
	responses := a.answers(http.StatusOK, linesOut{})
	responses["200"].Content["text/event-stream"] = &huma.MediaType{
		Schema: &huma.Schema{Type: huma.TypeString},
	}
	return responses
}

// readLog answers with a page of a log, or with what comes.
func (a *API) readLog(
	ctx context.Context, log textLog, in LogReading,
) (*huma.StreamResponse, error) {
	from, err := parseLineCursor("query.cursor", in.Cursor)
	if err != nil {
		return nil, err
	}
	if in.Follow && in.LastID != "" {
		if from, err = parseLineCursor("header.Last-Event-ID", in.LastID); err != nil {
			return nil, err
		}
	}
	if in.Follow {
		if _, err := log.final(ctx); err != nil {
			return nil, err
		}
		if err := a.follows.begin(in.key()); err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer a.follows.end(in.key())
			_, w := humago.Unwrap(c)
			a.follow(ctx, w.(*answer), log, from, in.Limit)
		}}, nil
	}
	page, err := log.read(ctx, from, in.Limit)
	if err != nil {
		return nil, err
	}
	out := linesOut{Items: make([]lineItem, len(page.Lines)), End: lineCursor(page.Next)}
	for i, l := range page.Lines {
		out.Items[i] = lineItem{instant(l.Time), l.Stream, l.Text}
	}
	if len(page.Lines) == in.Limit {
		out.Next = out.End
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humago.Unwrap(c)
		a.writeValue(w.(*answer), http.StatusOK, out)
	}}, nil
}

// follow streams lines until the log is final and nothing new came for one more look: a worker may
// send the last lines after its report. Errors end the stream; the reader comes back with its last
// cursor.
func (a *API) follow(ctx context.Context, w *answer, log textLog, from int64, limit int) {
	control := startStream(w)
	var event []byte
	said, final := time.Now(), false
	for !w.broken {
		ends, err := log.final(ctx)
		if err != nil {
			return
		}
		page, more, err := log.row(ctx, from, limit)
		if err != nil {
			return
		}
		if event = appendEvents(
			event[:0], page.Lines, page.Next,
		); len(event) == 0 && time.Since(said) >= quiet {
			event = append(event, ":\n\n"...)
		}
		if len(event) > 0 {
			said = time.Now()
			w.limit()
			w.Write(event)
			control.Flush()
		}
		from = page.Next
		if more {
			if a.over(ctx, w.epoch) {
				return
			}
			continue
		}
		if len(page.Lines) == 0 && final {
			return
		}
		final = ends
		if !a.pause(ctx, w.epoch, a.conf.Poll) {
			return
		}
	}
}

// row reads lines that stand in a row, so that the cursor behind each is known: where lines were
// dropped it is not. More says that others may follow.
func (l textLog) row(
	ctx context.Context, from int64, limit int,
) (page store.LogPage, more bool, err error) {
	for {
		page, err = l.read(ctx, from, limit)
		n := len(page.Lines)
		more = more || n == limit
		if n < 2 || page.Next-from == int64(n) {
			return page, more, err
		}
		limit, more = n/2, true
	}
}

// appendEvents appends an event for each line, with the cursor behind it; next is that behind the
// last.
func appendEvents(b []byte, lines []task.LogLine, next int64) []byte {
	for i := range lines {
		b = append(append(b, "id: "...), lineCursor(next-int64(len(lines)-1-i))...)
		b = append(b, "\ndata: "...)
		b = wire.AppendLines(b, lines[i:i+1]) // ends with a line feed, and has none inside
		b = append(b, '\n')
	}
	return b
}

type lineIn struct {
	Time   instant `json:"time,omitzero"`
	Stream string  `json:"stream,omitempty" maxLength:"128" doc:"stdout, stderr, or a word of the handler's own"`
	Text   string  `json:"text"`
}

type logOut struct {
	Lines   int `json:"lines" doc:"how many were added"`
	Dropped int `json:"dropped,omitempty" doc:"how many were not, because this log, or all at this node, get too many; a line in the log says so"`
}

// takeLines reads the lines of a call on a log and writes them, as far as the log's share and the
// node's go. The bodies of such calls leave half of the memory for bodies to others.
func (a *API) takeLines(
	w *answer, r *http.Request, log string, write func(context.Context, []task.LogLine) error,
) error {
	body, err := a.body(w, r, a.conf.MaxBodies/2)
	if err != nil {
		return err
	}
	kept, dropped, err := a.conf.Logs.Write(r.Context(), logshare.Call{
		Log: log, Body: body, Parse: wire.ParseLines, Write: write,
		Pause: func(ctx context.Context, d time.Duration) { a.pause(ctx, nil, d) },
	})
	if err != nil {
		return err
	}
	a.writeValue(w, http.StatusOK, logOut{Lines: kept, Dropped: dropped})
	return nil
}
