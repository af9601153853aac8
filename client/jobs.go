package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// JobsChanged says what a change of a group's jobs was.
type JobsChanged struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Kept    int `json:"kept"` // were there, whatever their loads and specs were
}

func jobsPath(group string) string { return groupPath(group) + "/jobs" }

func jobPath(group, job string) string { return jobsPath(group) + "/" + segment(job) }

// PutJobs makes jobs the whole list of a group: at most task.MaxJobChange. What is not in it ends.
// ErrConflict when the list comes from a source.
func (c *Client) PutJobs(ctx context.Context, group string, jobs ...task.Job) (JobsChanged, error) {
	return c.changeJobs(ctx, http.MethodPut, group, jobs)
}

// AddJobs adds jobs to a group, at most task.MaxJobChange; those that are there get the given load
// and spec. ErrConflict when the list comes from a source.
func (c *Client) AddJobs(ctx context.Context, group string, jobs ...task.Job) (JobsChanged, error) {
	return c.changeJobs(ctx, http.MethodPost, group, jobs)
}

// changeJobs may be done twice; only the counts differ then.
func (c *Client) changeJobs(
	ctx context.Context, method, group string, jobs []task.Job,
) (n JobsChanged, err error) {
	if err := refused(wire.CheckSpecs("body.jobs", jobs)); err != nil {
		return n, fmt.Errorf("change jobs of group %q: %w", group, err)
	}
	body := wire.AppendJobs(nil, jobs)
	if err := c.send(
		ctx, request{method: method, path: jobsPath(group), body: body, safe: true}, &n,
	); err != nil {
		return n, fmt.Errorf("change jobs of group %q: %w", group, err)
	}
	return n, nil
}

// RemoveJob removes a job from a group; its workers end it. ErrConflict when the list comes from a
// source.
func (c *Client) RemoveJob(ctx context.Context, group, job string) error {
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: jobPath(group, job)}, nil,
	); err != nil {
		return fmt.Errorf("remove job %q of group %q: %w", job, group, err)
	}
	return nil
}

// jobView is a job in the API's JSON.
type jobView struct {
	Job  string          `json:"job"`
	Load float64         `json:"load"`
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Jobs lists all jobs of a group, by name.
func (c *Client) Jobs(ctx context.Context, group string) ([]task.Job, error) {
	views, err := list[jobView](ctx, c, jobsPath(group))
	if err != nil {
		return nil, fmt.Errorf("list jobs of group %q: %w", group, err)
	}
	jobs := make([]task.Job, len(views))
	for i, v := range views {
		load, err := task.ParseUnits(v.Load)
		if err != nil {
			return nil, fmt.Errorf("list jobs of group %q: load of %q: %w", group, v.Job, err)
		}
		jobs[i] = task.Job{Name: v.Job, Load: load, Spec: opaque(v.Spec)}
	}
	return jobs, nil
}

func jobLogPath(group, job string) string { return jobPath(group, job) + "/logs" }

// AppendJobLog adds lines to a job's log. A worker may while it has a replica of the job.
func (c *Client) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	body := wire.AppendLines(nil, lines)
	if err := c.send(ctx,
		request{method: http.MethodPost, path: jobLogPath(group, job), body: body, lines: true},
		nil); err != nil {
		return fmt.Errorf("log of job %q of group %q: %w", job, group, err)
	}
	return nil
}

// JobLog reads a job's log: at most limit lines (0 = 100, at most 1,000) from cursor on ("" = the
// start). next is the cursor of the following page, "" after the last.
func (c *Client) JobLog(
	ctx context.Context, group, job, cursor string, limit int,
) (lines []task.LogLine, next string, err error) {
	var p page[task.LogLine]
	if err := c.get(
		ctx, request{path: jobLogPath(group, job), query: paged(url.Values{}, cursor, limit)}, &p,
	); err != nil {
		return nil, "", fmt.Errorf("read log of job %q of group %q: %w", job, group, err)
	}
	return p.Items, p.Next, nil
}

// FollowJobLog yields the lines of a job's log as they come, from cursor on ("" = the start), until
// the job is removed. Streams that break are followed by others, as with FollowLines; an error is
// the last that it yields.
func (c *Client) FollowJobLog(
	ctx context.Context, group, job, cursor string,
) iter.Seq2[task.LogLine, error] {
	return func(yield func(task.LogLine, error) bool) {
		f := follower{
			client: c, path: jobLogPath(group, job), query: url.Values{"follow": {"true"}},
			cursor: cursor,
		}
		f.read = func(data []byte) error {
			var line task.LogLine
			if err := json.Unmarshal(data, &line); err != nil {
				return fmt.Errorf("read line: %w: %w", errUnreadable, err)
			}
			if !yield(line, nil) {
				return errEnough
			}
			return nil
		}
		f.over = func() (bool, error) {
			_, _, err := c.JobLog(ctx, group, job, "", 1)
			if errors.Is(err, ErrNotFound) {
				return true, nil
			}
			return false, err
		}
		if err := f.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(task.LogLine{},
				fmt.Errorf("follow log of job %q of group %q: %w", job, group, err))
		}
	}
}
