package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

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

// linesIn asks for a page of a task's log, or follows.
type linesIn struct {
	TaskPath
	LogReading
}

// textLog is the log of something.
type textLog struct {
	read  func(ctx context.Context, from int64, limit int) (store.LogPage, error)
	final func(context.Context) (bool, error) // whether nothing will come but what is on its way
}

// taskLog is a task's log: it ends soon after the task.
func (a *API) taskLog(id task.ID) textLog {
	return textLog{
		func(ctx context.Context, from int64, limit int) (store.LogPage, error) {
			page, err := a.conf.Engine.Lines(ctx, id, from, limit)
			return page, missing(err, id)
		},
		func(ctx context.Context) (bool, error) {
			v, err := a.glance(ctx, id)
			return v.State.Final(), err
		},
	}
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

func (a *API) registerLogs() {
	a.described(logDoc, a.log)
	operation(a, huma.Operation{
		OperationID: "get-task-log", Method: http.MethodGet, Path: "/v1/tasks/{id}/logs",
		Tags:        []string{"Tasks"},
		Summary:     "Read or follow a task's log",
		Description: logAbout + "The stream ends when the task is final and its log was sent.",
		Responses:   a.logAnswers(),
	}, func(ctx context.Context, in *linesIn) (*huma.StreamResponse, error) {
		id, err := in.task()
		if err != nil {
			return nil, err
		}
		return a.readLog(ctx, a.taskLog(id), in.LogReading)
	})
}

func (a *API) log(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	if w.who.Role == roleWorker {
		v, err := a.glance(r.Context(), id)
		if err != nil {
			return err
		}
		if err := w.who.as(v.Worker); err != nil {
			return err
		}
	}
	return a.takeLines(w, r, id.String(), func(ctx context.Context, lines []task.LogLine) error {
		return missing(a.conf.Engine.Log(ctx, id, lines), id)
	})
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

// maxFollows is how many streams of server-sent events there may be at a time: each costs the store
// some reads a second.
const maxFollows = 256

// quiet is how long a stream says nothing before it sends a comment, so that both ends notice when
// the other is gone.
const quiet = 15 * time.Second

// follow streams lines until the log is final and nothing new came for one more look: a worker may
// send the last lines after its report. Errors end the stream; the reader comes back with its last
// cursor.
func (a *API) follow(ctx context.Context, w *answer, log textLog, from int64, limit int) {
	epoch := *a.epoch.Load()
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
			continue
		}
		if len(page.Lines) == 0 && final {
			return
		}
		final = ends
		if !a.pause(ctx, epoch, a.conf.Poll) {
			return
		}
	}
}

// startStream begins an answer of server-sent events.
func startStream(w *answer) *http.ResponseController {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	control.Flush()
	return control
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

// pause waits for d; false says that the call, or the server, ended before, or that the access
// tokens changed.
func (a *API) pause(ctx context.Context, epoch <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-epoch:
	case <-a.closing:
	}
	return false
}
