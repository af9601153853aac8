package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
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
	// Audit compares what was due with what has a row; 0 = unbounded.
	Audit(ctx context.Context, name string, from, to int64) (store.Audit, error)
}

// fireItem is what came of a due time.
type fireItem struct {
	At      instant          `json:"at" nullable:"true" doc:"the due time"`
	Through instant          `json:"through" nullable:"true" doc:"the last of the due times that the row stands for"`
	Count   int64            `json:"count" doc:"how many these were; 1, or more that were missed in a row: what was backfilled of them has a row of its own"`
	Origin  task.Origin      `json:"origin" enum:"schedule,manual,backfill,after,retry"`
	Outcome task.FireOutcome `json:"outcome" enum:"fired,skipped,missed,queued"`
	Reason  string           `json:"reason" doc:"why it was not fired"`
	Task    string           `json:"task" doc:"its id; empty = there is none"`
	Ended   string           `json:"ended" doc:"how the task ended: done, fail, retry, timeout, lost, cancelled, removed; empty = it is not final, or nobody knows any more"`
	Node    string           `json:"node" doc:"that wrote the row"`
	Fired   instant          `json:"fired" nullable:"true" doc:"when it was written"`
}

func fireOf(f *store.Fire) fireItem {
	return fireItem{
		At: instantAt(f.At), Through: instantAt(f.Through), Count: f.Count, Origin: f.Origin,
		Outcome: f.Outcome, Reason: f.Reason,
		Task: taskText(f.Task), Ended: f.End(), Node: f.Node, Fired: instantAt(f.Time),
	}
}

func firesOf(list []store.Fire) []fireItem {
	items := make([]fireItem, len(list))
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

// backfillOut answers it.
type backfillOut struct {
	Times []instant  `json:"times" nullable:"false" doc:"due times that get a task, oldest first"`
	Fired int64      `json:"fired" doc:"due times of the range that were fired or queued already"`
	Fires []fireItem `json:"fires" nullable:"false" doc:"what was written; none in a dry run"`
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
	body:    backfillIn{}, answer: backfillOut{},
}

// auditIn is the query of an audit.
type auditIn struct {
	SchedulePath
	From instant `query:"from" doc:"due times after it; left out = all that are known"`
	To   instant `query:"to" doc:"due times up to and with it; left out = all that were handled"`
}

// auditOut compares what was due with what has a row.
type auditOut struct {
	Schedule string    `json:"schedule"`
	Complete bool      `json:"complete" doc:"every due time has its row, and no other has one"`
	From     instant   `json:"from" nullable:"true" doc:"what was looked at: due times after it"`
	To       instant   `json:"to" nullable:"true" doc:"up to and with it"`
	Demanded int64     `json:"demanded" doc:"due times by what the schedule was at the time"`
	Fired    int64     `json:"fired"`
	Skipped  int64     `json:"skipped"`
	Missed   int64     `json:"missed"`
	Queued   int64     `json:"queued"`
	Aside    int64     `json:"aside" doc:"rows that nobody demanded: by hand, backfilled, following"`
	Holes    []instant `json:"holes" nullable:"false" doc:"due times without a row, the first 1,000"`
	Strays   []instant `json:"strays" nullable:"false" doc:"rows of times that were not due, the first 1,000"`
	Late     duration  `json:"late" doc:"the longest that a fired one was late"`
}

func (a *API) registerFires() {
	tags := []string{"Schedules"}
	operation(a, huma.Operation{
		OperationID: "run-schedule", Method: http.MethodPost, Path: "/v1/schedules/{name}/run",
		Tags:        tags,
		Summary:     "Submit a schedule's task now",
		Description: "Aside of its due times, paused or not, whatever runs; for later overlaps it counts.",
	}, func(ctx context.Context, in *SchedulePath) (*struct{ Body fireItem }, error) {
		f, err := a.conf.Fires.RunNow(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return &struct{ Body fireItem }{fireOf(&f)}, nil
	})
	a.described(backfillDoc, a.backfill)
	operation(a, huma.Operation{
		OperationID: "list-fires", Method: http.MethodGet, Path: "/v1/schedules/{name}/fires",
		Tags:        tags,
		Summary:     "List what came of a schedule's due times, newest first",
		Description: "Kept for 90 days. With outcome a page may be short, even empty, while next is not: it looks at a bounded number of due times.",
	}, a.fires)
	operation(a, huma.Operation{
		OperationID: "audit-schedule", Method: http.MethodGet, Path: "/v1/schedules/{name}/audit",
		Tags:    tags,
		Summary: "Compare what was due with what came of it",
	}, a.audit)
}

func (a *API) backfill(w *answer, r *http.Request) error {
	var in backfillIn
	if err := a.strict(w, r, &in); err != nil {
		return err
	}
	const item = 300 // about so many bytes is one in the answer
	if !a.keep(r.Context(), w, item*task.MaxBackfill, a.large.limit/4, patience) {
		return busy("too many large answers are under way")
	}
	asked := store.BackfillRequest{
		From: in.From.micros(), To: in.To.micros(), Limit: in.Limit, DryRun: in.DryRun,
	}
	w.dry(in.DryRun)
	done, err := a.conf.Fires.Backfill(r.Context(), r.PathValue("name"), asked)
	if err != nil && !in.DryRun {
		return a.partly(r, err)
	}
	if err != nil {
		return err
	}
	w.note("changed", len(done.Fires))
	a.writeValue(w, http.StatusOK,
		backfillOut{instantsAt(done.Times), done.Fired, firesOf(done.Fires)})
	return nil
}

// instantsAt are the instants of times.
func instantsAt(micros []int64) []instant {
	list := make([]instant, len(micros))
	for i, at := range micros {
		list[i] = instantAt(at)
	}
	return list
}

func (a *API) fires(ctx context.Context, in *firesIn) (*listed[fireItem], error) {
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
	fires, err := a.conf.Fires.Fires(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &listed[fireItem]{}
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

func (a *API) audit(ctx context.Context, in *auditIn) (*struct{ Body auditOut }, error) {
	from, to := in.From.micros(), in.To.micros()
	if to != 0 && to < from {
		return nil, wrong("query.to", "lies before from")
	}
	if !a.audits.await(ctx, 1, 0, patience) {
		return nil, busy(fmt.Sprintf("%d audits are being made at this node, which is the limit",
			maxAudits))
	}
	defer a.audits.give(1)
	found, err := a.conf.Fires.Audit(ctx, in.Name, from, to)
	if err != nil {
		return nil, err
	}
	return &struct{ Body auditOut }{auditOut{
		Schedule: found.Schedule, Complete: found.Complete(), From: instantAt(found.From),
		To: instantAt(found.To), Demanded: found.Demanded,
		Fired: found.Fired, Skipped: found.Skipped, Missed: found.Missed, Queued: found.Queued,
		Aside: found.Aside,
		Holes: instantsAt(found.Holes), Strays: instantsAt(found.Strays),
		Late: duration{time.Duration(found.Late) * time.Microsecond},
	}}, nil
}
