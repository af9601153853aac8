package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Fires is what came of due times. Errors are those of an [Engine].
type Fires interface {
	// RunNow submits a schedule's task aside of its due times.
	RunNow(ctx context.Context, name string) (store.Fire, error)
	// Backfill submits the tasks of due times of the past that were not fired. Locations in an
	// InvalidError are "body.…".
	Backfill(ctx context.Context, name string, r store.BackfillRequest) (store.Backfilled, error)
	// Fires lists what came of a schedule's due times.
	Fires(context.Context, store.FireQuery) ([]store.Fire, error)
	// RunOf shows the run to which the fire of a schedule at a time belongs.
	RunOf(ctx context.Context, name string, at int64) (store.RunView, error)
	// Audit compares what was due with what has a row; 0 = unbounded.
	Audit(ctx context.Context, name string, from, to int64) (store.Audit, error)
}

// fireOf is the fire as it is shown.
func fireOf(f *store.Fire) view.Fire {
	return view.Fire{
		At: timeAt(f.At), Through: timeAt(f.Through), Count: f.Count, Origin: f.Origin,
		Outcome: f.Outcome, Reason: f.Reason,
		Task: view.TaskID{ID: f.Task}, Ended: f.End(), Node: f.Node, Fired: timeAt(f.Time),
		Run: fireKeyOf(f.Run), After: fireKeysOf(f.Parents),
	}
}

func fireKeyOf(k store.FireKey) view.FireKey {
	return view.FireKey{Schedule: k.Schedule, At: timeAt(k.At)}
}

func fireKeysOf(list []store.FireKey) []view.FireKey {
	keys := make([]view.FireKey, len(list))
	for i, k := range list {
		keys[i] = fireKeyOf(k)
	}
	return keys
}

func firesOf(list []store.Fire) []view.Fire {
	items := make([]view.Fire, len(list))
	for i := range list {
		items[i] = fireOf(&list[i])
	}
	return items
}

// firesIn is the query of a list of fires.
type firesIn struct {
	SchedulePath
	Outcome string  `query:"outcome" enum:"fired,skipped,missed,queued"`
	Since   instant `query:"since" doc:"due at or after"`
	Until   instant `query:"until" doc:"due before"`
	Paging
}

// backfillIn is the body of POST /v1/schedules/{name}/backfill.
type backfillIn struct {
	From   instant `json:"from" doc:"due at or after"`
	To     instant `json:"to" doc:"due before"`
	Limit  int     `json:"limit,omitempty" minimum:"0" maximum:"10000" doc:"so many of the schedule's tasks at a time; 0 = all at once"`
	DryRun bool    `json:"dry_run,omitempty" doc:"only say which"`
}

var backfillDoc = described{
	op: huma.Operation{
		OperationID: "backfill-schedule", Method: http.MethodPost,
		Path: "/v1/schedules/{name}/backfill", Tags: []string{"Schedules"},
		Summary: "Submit tasks of due times of the past that were not fired",
		Description: "Missed and skipped due times from from on and before to are fired, and those from before the schedule was made, at most 10,000; with limit so " +
			"many at a time, the others wait as queued. Due times that were fired stay as they are, so the call can be repeated.",
		Parameters: []*huma.Param{scheduleParameter},
	},
	status:  http.StatusOK,
	example: `{"from":"2026-10-01T00:00:00Z","to":"2026-10-02T00:00:00Z","limit":2}`,
	body:    backfillIn{}, answer: view.Backfilled{},
}

// auditIn is the query of an audit.
type auditIn struct {
	SchedulePath
	From instant `query:"from" doc:"due times after it; left out = all that are known"`
	To   instant `query:"to" doc:"due times up to and with it; left out = all that were handled"`
}

// fireCalls are the calls about what came of due times.
type fireCalls struct {
	door  *API
	fires Fires

	audits budget // audits under way: each may go over millions of due times
}

func newFireCalls(door *API, fires Fires) *fireCalls {
	c := &fireCalls{door: door, fires: fires}
	c.audits.limit = maxAudits
	return c
}

func (c *fireCalls) register() {
	tags := []string{"Schedules"}
	operation(c.door, huma.Operation{
		OperationID: "run-schedule", Method: http.MethodPost, Path: "/v1/schedules/{name}/run",
		Tags:        tags,
		Summary:     "Submit a schedule's task now",
		Description: "Aside of its due times, paused or not, whatever runs; for later overlaps it counts.",
	}, func(ctx context.Context, in *SchedulePath) (*struct{ Body view.Fire }, error) {
		f, err := c.fires.RunNow(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return &struct{ Body view.Fire }{fireOf(&f)}, nil
	})
	c.door.described(backfillDoc, c.backfill)
	operation(c.door, huma.Operation{
		OperationID: "list-fires", Method: http.MethodGet, Path: "/v1/schedules/{name}/fires",
		Tags:        tags,
		Summary:     "List what came of a schedule's due times, newest first",
		Description: "Kept for 90 days. With outcome a page may be short, even empty, while next is not: it looks at a bounded number of due times.",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "show-run", Method: http.MethodGet, Path: "/v1/schedules/{name}/runs/{at}",
		Tags:    tags,
		Summary: "Show the run to which a due time belongs, as a tree",
		Description: "The fire with which it began, and all that followed by way of after, with the states and times of their tasks. At most 500 fires are shown. " +
			"A time in whole seconds or milliseconds finds the newest fire in that second or millisecond.",
	}, c.run)
	operation(c.door, huma.Operation{
		OperationID: "audit-schedule", Method: http.MethodGet, Path: "/v1/schedules/{name}/audit",
		Tags:    tags,
		Summary: "Compare what was due with what came of it",
	}, c.audit)
}

func (c *fireCalls) backfill(w *answer, r *http.Request) error {
	var in backfillIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	const item = 300 // about so many bytes is one in the answer
	if err := c.door.room(r.Context(), &w.call, item*limits.MaxBackfill); err != nil {
		return err
	}
	asked := store.BackfillRequest{
		From: in.From.micros(), To: in.To.micros(), Limit: in.Limit, DryRun: in.DryRun,
	}
	w.dry(in.DryRun)
	done, err := c.fires.Backfill(r.Context(), r.PathValue("name"), asked)
	if err != nil && !in.DryRun {
		return c.door.partly(r, err)
	}
	if err != nil {
		return err
	}
	w.note("changed", len(done.Fires))
	c.door.writeValue(w, http.StatusOK,
		view.Backfilled{
			Times: timesAt(done.Times), Fired: done.Fired, Fires: firesOf(done.Fires),
		})
	return nil
}

// timesAt are the times of an answer.
func timesAt(micros []int64) []view.Time {
	list := make([]view.Time, len(micros))
	for i, at := range micros {
		list[i] = timeAt(at)
	}
	return list
}

func (c *fireCalls) list(ctx context.Context, in *firesIn) (*listed[view.Fire], error) {
	after, err := parseFireCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	most := in.Limit + 1
	if in.Outcome != "" {
		most = max(most, examinedFires)
	}
	q := store.FireQuery{
		Schedule: in.Name, From: in.Since.micros(), To: in.Until.micros(), After: after,
		Newest: true, Limit: most,
	}
	if q.To != 0 && q.To < q.From {
		return nil, wrong("query.until", "lies before since")
	}
	fires, err := c.fires.Fires(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &listed[view.Fire]{}
	var last int64 // the row that was looked at last
	page := make([]store.Fire, 0, in.Limit)
	for i := range fires {
		if len(page) == in.Limit {
			out.Body.Next = fireCursor(last)
			break
		}
		last = fires[i].At
		if in.Outcome == "" || fires[i].Outcome == task.FireOutcome(in.Outcome) {
			page = append(page, fires[i])
		}
	}
	if len(fires) == most {
		out.Body.Next = fireCursor(last)
	}
	out.Body.Items = firesOf(page)
	return out, nil
}

// examinedFires is how many rows a page looks at for those with an outcome: a schedule may have
// millions, and one of them.
const examinedFires = 2000

func fireCursor(at int64) string { return cursor(fireShelf, strconv.FormatInt(at, 10)) }

// parseFireCursor is the due time before which a list of fires goes on; 0 = the newest.
func parseFireCursor(text string) (int64, error) {
	place, err := parseCursor(fireShelf, text)
	if err != nil || place == "" {
		return 0, err
	}
	at, err := strconv.ParseInt(place, 10, 64)
	if err != nil || at <= 0 || fireCursor(at) != text {
		return 0, wrong("query.cursor", "is not a cursor of this list")
	}
	return at, nil
}

// maxAudits is how many audits a node makes at a time.
const maxAudits = 2

func (c *fireCalls) audit(ctx context.Context, in *auditIn) (*struct{ Body view.Audit }, error) {
	from, to := in.From.micros(), in.To.micros()
	if to != 0 && to < from {
		return nil, wrong("query.to", "lies before from")
	}
	if !c.audits.await(ctx, 1, 0, patience) {
		return nil, busy(fmt.Sprintf("%d audits are being made at this node, which is the limit",
			maxAudits))
	}
	defer c.audits.give(1)
	found, err := c.fires.Audit(ctx, in.Name, from, to)
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.Audit }{view.Audit{
		Schedule: found.Schedule, Complete: found.Complete(), From: timeAt(found.From),
		To: timeAt(found.To), Demanded: found.Demanded,
		Fired: found.Fired, Skipped: found.Skipped, Missed: found.Missed, Queued: found.Queued,
		Aside: found.Aside,
		Holes: timesAt(found.Holes), Strays: timesAt(found.Strays),
		Late: view.Duration(time.Duration(found.Late) * time.Microsecond),
	}}, nil
}
