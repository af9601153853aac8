package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func workerPath(name string) string { return "/v1/workers/" + segment(name) }

// Workers lists the workers of all nodes, by name. missing are the nodes that did not answer the
// one that was asked: workers that only they know are not in the list.
func (c *Client) Workers(
	ctx context.Context,
) (workers []task.Worker, missing []string, err error) {
	for cursor := ""; ; {
		var p struct {
			page[task.Worker]
			Missing []string `json:"missing"`
		}
		if err := c.get(
			ctx,
			request{path: "/v1/workers", query: paged(url.Values{}, cursor, limits.MaxHold)}, &p,
		); err != nil {
			return nil, nil, fmt.Errorf("list workers: %w", err)
		}
		workers = append(workers, p.Items...)
		missing = append(missing, p.Missing...)
		if p.Next == "" || p.Next == cursor {
			slices.Sort(missing)
			return workers, slices.Compact(missing), nil
		}
		cursor = p.Next
	}
}

// Worker reads one worker.
func (c *Client) Worker(ctx context.Context, name string) (task.Worker, error) {
	var w task.Worker
	if err := c.get(ctx, request{path: workerPath(name)}, &w); err != nil {
		return task.Worker{}, fmt.Errorf("read worker %q: %w", name, err)
	}
	return w, nil
}

// WorkerDrain is what a worker is to give up. The zero value is all it has, for as long as that
// takes.
type WorkerDrain struct {
	// Shed is how many units of its capacity are to be free; 0 = all: it takes nothing new.
	Shed float64
	// Within is by when: what is left then is taken from it, and begins elsewhere. 0 = it may take
	// as long as it takes. By is the same as a time; not both.
	Within time.Duration
	By     time.Time
	Force  bool // even where replicas of jobs have no other place: they stay
	DryRun bool // only say what it costs
}

// DrainWorker lets a worker finish what it has and take nothing new. effect says in a sentence what
// that does to the groups of jobs that it serves; "" = it serves none. It is refused (ErrConflict)
// where replicas have no other place: DrainWorkerWith can force it.
func (c *Client) DrainWorker(ctx context.Context, name string) (effect string, err error) {
	v, err := c.DrainWorkerWith(ctx, name, WorkerDrain{})
	return v.Effect, err
}

// DrainWorkerWith lets a worker give up its work, all of it or a part, and says what that costs.
// Without Force it is refused (ErrConflict) where replicas of jobs have no other place, with what
// would have to be added.
func (c *Client) DrainWorkerWith(
	ctx context.Context, name string, what WorkerDrain,
) (view.WorkerDrained, error) {
	in := struct {
		Shed     float64 `json:"shed,omitempty"`
		Deadline string  `json:"deadline,omitempty"`
		DryRun   bool    `json:"dry_run,omitempty"`
		Force    bool    `json:"force,omitempty"`
	}{Shed: what.Shed, DryRun: what.DryRun, Force: what.Force}
	switch {
	case !what.By.IsZero():
		in.Deadline = what.By.UTC().Format(time.RFC3339Nano)
	case what.Within != 0:
		in.Deadline = what.Within.String()
	}
	var v view.WorkerDrained
	body, err := json.Marshal(in)
	if what == (WorkerDrain{}) { // nodes of before know no body
		body = nil
	}
	if err == nil {
		err = c.send(ctx, request{
			method: http.MethodPost, path: workerPath(name) + "/drain", body: body, safe: true,
		}, &v)
	}
	if err != nil {
		return view.WorkerDrained{}, fmt.Errorf("drain worker %q: %w", name, err)
	}
	return v, nil
}

// UndrainWorker undoes DrainWorker.
func (c *Client) UndrainWorker(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: workerPath(name) + "/undrain", safe: true}, nil,
	); err != nil {
		return fmt.Errorf("undrain worker %q: %w", name, err)
	}
	return nil
}

// DeleteWorker gives a worker's tasks back at once and forgets it.
func (c *Client) DeleteWorker(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: workerPath(name)}, nil,
	); err != nil {
		return fmt.Errorf("delete worker %q: %w", name, err)
	}
	return nil
}

// Readiness is what a server says of itself.
type Readiness struct {
	Ready       bool          // it serves everything
	Store       string        // kind of store
	Durability  string        // local, sync or async: what an acknowledged write survives
	Joined      bool          // it is a member of the cluster
	ClockOffset time.Duration // of its clock to the store's
	Age         time.Duration // since the store answered: what is said of it is so old
	Detail      string        // why it isn't ready, or what is wrong with it all the same
	// it said no more than whether it is ready: it wants an access token, or another one
	Brief bool
}

// Ready asks the server in use how it stands. That it isn't ready is no error; that it doesn't
// answer is.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var v struct {
		Status      string   `json:"status"`
		Ready       *bool    `json:"ready"`
		Store       string   `json:"store"`
		Durability  string   `json:"durability"`
		Joined      bool     `json:"joined"`
		ClockOffset duration `json:"clock_offset"`
		Age         duration `json:"age"`
		Detail      string   `json:"detail"`
	}
	body, err := c.probe(ctx, "/readyz", http.StatusServiceUnavailable)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	if err != nil {
		return Readiness{}, fmt.Errorf("ask whether the server is ready: %w", err)
	}
	if v.Ready == nil {
		return Readiness{Ready: v.Status == "ok", Brief: true}, nil
	}
	return Readiness{
		Ready: *v.Ready, Store: v.Store, Durability: v.Durability, Joined: v.Joined,
		ClockOffset: time.Duration(v.ClockOffset), Age: time.Duration(v.Age), Detail: v.Detail,
	}, nil
}

// Healthy is nil when the server in use serves.
func (c *Client) Healthy(ctx context.Context) error {
	if _, err := c.probe(ctx, "/healthz", 0); err != nil {
		return fmt.Errorf("ask whether the server serves: %w", err)
	}
	return nil
}

// probe asks the server in use once: whoever probes wants to know of trouble, not to have it
// smoothed over.
func (c *Client) probe(ctx context.Context, path string, also int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	response, err := c.open(ctx, c.servers.use(), request{method: http.MethodGet, path: path})
	if err != nil {
		if connecting(err) {
			err = errors.Join(ErrUnreachable, err)
		}
		return nil, err
	}
	defer response.Body.Close()
	body, err := readAll(response)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 && response.StatusCode != also {
		return nil, newError(response.StatusCode, response.Header, body)
	}
	return body, nil
}
