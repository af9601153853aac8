package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Jobs keeps the jobs of groups and what they print. Errors are those of an [Engine].
type Jobs interface {
	// ChangeJobs replaces, adds or removes jobs, all or nothing. The jobs were checked. A group
	// whose list comes from a source: store.ErrConflict.
	ChangeJobs(context.Context, store.JobChange) (store.JobsChanged, error)
	// Jobs lists a group's jobs by name, from behind after ("" = the first) on.
	Jobs(ctx context.Context, group, after string, limit int) ([]task.Job, error)
	AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error
	// JobLog reads lines from a position on (0 = the first).
	JobLog(ctx context.Context, group, job string, from int64, limit int) (store.LogPage, error)
}

// jobsIn is the body that changes a list of jobs. Package wire reads it, since it may be long.
type jobsIn struct {
	Jobs []jobIn `json:"jobs" nullable:"false" maxItems:"100000"`
}

type jobIn struct {
	Job  string          `json:"job" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128"`
	Load *float64        `json:"load,omitempty" minimum:"0" maximum:"1000000" doc:"units of a worker's capacity, with at most 3 decimals; 1"`
	Spec json.RawMessage `json:"spec,omitempty" doc:"any JSON value of at most 64 KiB, kept byte for byte and given to the worker"`
}

// jobsChanged answers it.
type jobsChanged struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Kept    int `json:"kept" doc:"was there, whatever its load and its spec were"`
}

// jobItem is a job in a list; it documents what appendJobs writes.
type jobItem struct {
	Job  string  `json:"job"`
	Load float64 `json:"load"`
	Spec any     `json:"spec,omitempty" doc:"byte for byte as it was given; left out = none"`
}

// JobPath names a job of a group. It is exported as TaskItem is.
type JobPath struct {
	GroupPath
	Job string `path:"job" doc:"the job's name" example:"access.log"`
}

func jobsDoc(method, id, summary, about string) described {
	return described{
		op: huma.Operation{
			OperationID: id, Method: method, Path: "/v1/groups/{group}/jobs",
			Tags: []string{"Groups"}, Summary: summary,
			Description: "All or nothing. " + about +
				" Only of a group whose source is api; else 409.",
			Parameters: []*huma.Param{pathParameter("group", "the group's name")},
		},
		status: http.StatusOK, body: jobsIn{},
		example: `{"jobs":[{"job":"access.log"},{"job":"error.log","load":0.5,"spec":{"path":"/var/log/error.log"}}]}`,
		answer:  jobsChanged{},
	}
}

var listJobsDoc = described{
	op: huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: "/v1/groups/{group}/jobs",
		Tags: []string{"Groups"}, Summary: "List a group's jobs by name",
		Description: "A page may be short while next is not: it ends when its specs are large.",
		Parameters: []*huma.Param{
			pathParameter("group", "the group's name"), limitParameter,
			queryParameter("cursor", "next of the page before", nil, nil),
		},
	},
	status: http.StatusOK, answer: list[jobItem]{},
}

// jobCalls are the calls about the jobs of groups, and about what they print.
type jobCalls struct {
	door       *API
	jobs       Jobs
	placements PlacementList
}

func (c *jobCalls) register() {
	replaced, added := "What is not in the list is removed; what is in it and runs goes on.",
		"One that is there gets the given load and spec."
	c.door.described(jobsDoc(http.MethodPut, "put-jobs", "Replace a group's jobs", replaced),
		c.change(true))
	c.door.described(jobsDoc(http.MethodPost, "add-jobs", "Add jobs to a group", added),
		c.change(false))
	c.door.described(listJobsDoc, c.list)
	operation(c.door, huma.Operation{
		OperationID: "delete-job", Method: http.MethodDelete, Path: "/v1/groups/{group}/jobs/{job}",
		Tags:    []string{"Groups"},
		Summary: "Remove a job from a group; its workers end it",
	}, c.remove)
	c.registerLogs()
}

// change waits for the store even when the caller seems gone, as submit does: specs are parts
// of the body.
func (c *jobCalls) change(whole bool) func(*answer, *http.Request) error {
	return func(w *answer, r *http.Request) error {
		if _, err := knownQuery(r); err != nil {
			return err
		}
		body, err := c.door.body(w, r, c.door.conf.MaxBodies/4)
		if err != nil {
			return err
		}
		jobs, err := wire.ParseJobs(body, task.MaxJobChange)
		if err != nil {
			return err
		}
		canonicalJobs(jobs)
		var e task.InvalidError
		if limits.CheckJobs(&e, "body.jobs", jobs); e.Err() != nil {
			return &e
		}
		change := store.JobChange{Group: r.PathValue("group"), Whole: whole, Put: jobs}
		changed, err := c.jobs.ChangeJobs(context.WithoutCancel(r.Context()), change)
		if err != nil {
			return err
		}
		w.note("added", changed.Added)
		w.note("removed", changed.Removed)
		w.note("kept", changed.Kept)
		w.note("changed", changed.Added+changed.Removed)
		c.door.writeValue(w, http.StatusOK,
			jobsChanged{changed.Added, changed.Removed, changed.Kept})
		return nil
	}
}

func (c *jobCalls) remove(ctx context.Context, in *JobPath) (*struct{}, error) {
	changed, err := c.jobs.ChangeJobs(ctx, store.JobChange{
		Group: in.Group, Remove: []string{in.Job},
	})
	if err == nil && changed.Removed == 0 {
		err = fmt.Errorf("job %.140q of group %.140q: %w", in.Job, in.Group, store.ErrNotFound)
	}
	return nil, err
}

func (c *jobCalls) list(w *answer, r *http.Request) error {
	query, err := knownQuery(r, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := parseLimit(query)
	if err != nil {
		return err
	}
	after, err := parseCursor(jobShelf, query.Get("cursor"))
	if err != nil {
		return err
	}
	if err := c.door.room(r.Context(), &w.call, 2*fullPage); err != nil {
		return err
	}
	read := func(after string, n int) ([]task.Job, error) {
		return c.jobs.Jobs(r.Context(), r.PathValue("group"), after, n)
	}
	jobs, more, err := filled(after, limit, read, func(j *task.Job) (string, int) {
		return j.Name, len(j.Spec)
	})
	if err != nil {
		return err
	}
	next := ""
	if n := len(jobs); n > 0 && more {
		next = cursor(jobShelf, jobs[n-1].Name)
	}
	c.door.write(w, http.StatusOK, func(b []byte) []byte { return appendJobs(b, jobs, next) })
	return nil
}

// appendJobs appends a page of jobs. Specs go in as they are: encoding/json would strip their
// spaces.
func appendJobs(b []byte, jobs []task.Job, next string) []byte {
	b = append(b, `{"items":[`...)
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		job := jobs[i]
		job.Spec = readable(job.Spec)
		b = wire.AppendJob(b, &job)
	}
	b = append(append(b, `],"next":`...), encoded(next)...)
	return append(b, '}')
}

// limitParameter describes what parseLimit reads.
var limitParameter = &huma.Param{
	Name: "limit", In: "query", Description: "at most so many", Schema: &huma.Schema{
		Type: huma.TypeInteger, Format: "int64", Minimum: new(1.0), Maximum: new(float64(maxPage)),
		Default: standardPage,
	},
}

// parseLimit reads how long a page may be.
func parseLimit(query url.Values) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return standardPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, wrong("query.limit", "must be 1 to %d", maxPage)
	}
	return n, nil
}
