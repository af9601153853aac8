package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// jobLinesIn asks for a page of a job's log, or follows.
type jobLinesIn struct {
	JobPath
	LogReading
}

var jobLogDoc = described{
	op: huma.Operation{
		OperationID: "log-job", Method: http.MethodPost, Path: "/v1/groups/{group}/jobs/{job}/logs",
		Tags:    []string{"Work"},
		Summary: "Add lines to a job's log",
		Description: "One JSON object a line; at most 10,000 lines a call. A line without a time gets the present one. A worker may while it has a " +
			"replica of the job.",
		Parameters: []*huma.Param{
			pathParameter("group", "the group's name"), pathParameter("job", "the job's name"),
		},
	},
	status: http.StatusOK, example: `{"stream":"stdout","text":"42 lines so far"}`, body: lineIn{},
	bodyType: "application/x-ndjson", answer: logOut{},
}

func (c *jobCalls) registerLogs() {
	c.door.described(jobLogDoc, c.log)
	operation(c.door, huma.Operation{
		OperationID: "get-job-log", Method: http.MethodGet,
		Path: "/v1/groups/{group}/jobs/{job}/logs", Tags: []string{"Groups"},
		Summary:     "Read or follow a job's log",
		Description: logAbout + "The stream ends when the job is removed.",
		Responses:   c.door.logAnswers(),
	}, func(ctx context.Context, in *jobLinesIn) (*huma.StreamResponse, error) {
		return c.door.readLog(ctx, c.logOf(in.Group, in.Job), in.LogReading)
	})
}

// log adds lines to a job's log.
func (c *jobCalls) log(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	group, job := r.PathValue("group"), r.PathValue("job")
	if err := c.mayLog(r.Context(), w.who, group, job); err != nil {
		return err
	}
	add := func(ctx context.Context, lines []task.LogLine) error {
		return c.jobs.AppendJobLog(ctx, group, job, lines)
	}
	return c.door.takeLines(w, r, group+"/"+job, add)
}

// mayLog refuses a worker's token for a job of which that worker has no replica.
func (c *jobCalls) mayLog(ctx context.Context, who principal, group, job string) error {
	if who.Role != roleWorker || who.Name == "*" {
		return nil
	}
	here, err := c.placements.Placements(ctx, store.PlacementQuery{
		Group: group, Job: job, Worker: who.Name, Limit: 1,
	})
	if err == nil && len(here) == 0 {
		err = refuse(http.StatusForbidden, "worker %q has no replica of job %.140q", who.Name, job)
	}
	return err
}

// logOf is a job's log: it goes on for as long as the job is there.
func (c *jobCalls) logOf(group, job string) textLog {
	read := func(ctx context.Context, from int64, limit int) (store.LogPage, error) {
		return c.jobs.JobLog(ctx, group, job, from, limit)
	}
	return textLog{read, func(ctx context.Context) (bool, error) {
		_, err := read(ctx, 0, 1)
		return false, err
	}}
}
