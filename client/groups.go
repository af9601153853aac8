package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/task"
)

// Group is a group of jobs, and how it stands.
type Group struct {
	task.Group // what lets somebody in is masked in a source's URL
	Created    time.Time
	Jobs       int64
	Wanted     int // replicas of all jobs
	Running    int
	Starting   int
	Failed     int // ended by themselves and are to be started again
	Pending    int // have no worker; Assignments says why
	Moving     int // run until their successors do
	Ending     int
	Supervisor string // the node that looks after the group; "" = none does just now
	Budget     JobBudget
	Read       SourceRead
}

// JobBudget is how many workers, whichever they are, can die at once with a place left for every
// replica of the group and of all groups that share workers with it.
type JobBudget struct {
	Workers int      `json:"workers"`
	Exact   bool     `json:"exact"`   // else it may be more
	Weakest []string `json:"weakest"` // workers whose deaths would hurt most, the worst first
	// workers without which some replica is certain to have no place
	Breaking []string `json:"breaking"`
	Groups   []string `json:"groups"` // the groups whose replicas would lack room then
	Text     string   `json:"text"`   // a sentence
}

// SourceRead is what came of the newest reading of a group's source.
type SourceRead struct {
	Tried   time.Time
	Good    time.Time // when it worked last
	Error   string    // why the newest failed; the list of jobs stayed as it was
	Pending bool      // somebody asked for a reading that is not done yet
}

// GroupChange says what to change of a group's configuration; nil leaves it as it is, or at its
// default in a new group.
type GroupChange struct {
	Replicas *int
	Selector *map[string]string // labels that a worker must have
	Spread   *string            // task.SpreadZone or task.SpreadWorker
	// its empty fields stay as they are, but those that only another Kind needs are forgotten
	Source *task.Source
	Policy *PolicyChange
	Paused *bool
	// a worker of which nothing is heard for so long loses the group's replicas
	Silence *time.Duration
	// a replica whose handler gives no sign for so long is started elsewhere; 0 = never
	JobSilence *time.Duration
	Title      *string // what people call it; "" = nothing
	Owner      *string // who answers for it, a name or a mail address; "" = nobody
}

// PolicyChange says what to change of what a group's supervisor may do by itself.
type PolicyChange struct {
	Moves   *int           // voluntary moves a round
	New     *int           // new replicas a worker and round
	Penalty *time.Duration // so long is a worker avoided on which a job just failed
	Warmup  *time.Duration // so long does a new supervisor wait for workers to report, at most
}

// MarshalJSON writes the fields that are set, as the API reads them.
func (g GroupChange) MarshalJSON() ([]byte, error) {
	f := groupFields{
		Replicas: g.Replicas, Selector: g.Selector, Spread: g.Spread, Paused: g.Paused,
		Silence: (*duration)(g.Silence), JobSilence: (*duration)(g.JobSilence),
		Title: g.Title, Owner: g.Owner,
	}
	if s := g.Source; s != nil {
		f.Source = new(sourceOf(*s))
	}
	if p := g.Policy; p != nil {
		f.Policy = &policyFields{p.Moves, p.New, (*duration)(p.Penalty), (*duration)(p.Warmup)}
	}
	return json.Marshal(f)
}

// groupFields is a group's configuration in the API's JSON; nil fields are left out.
type groupFields struct {
	Replicas   *int               `json:"replicas,omitempty"`
	Selector   *map[string]string `json:"selector,omitempty"`
	Spread     *string            `json:"spread,omitempty"`
	Source     *sourceFields      `json:"source,omitempty"`
	Policy     *policyFields      `json:"policy,omitempty"`
	Paused     *bool              `json:"paused,omitempty"`
	Silence    *duration          `json:"silence,omitempty"`
	JobSilence *duration          `json:"job_silence,omitempty"`
	Title      *string            `json:"title,omitempty"`
	Owner      *string            `json:"owner,omitempty"`
}

type sourceFields struct {
	Kind    string   `json:"kind,omitempty"`
	Path    string   `json:"path,omitempty"`
	URL     string   `json:"url,omitempty"`
	Command []string `json:"command,omitempty"`
	Every   duration `json:"every,omitzero"`
}

func sourceOf(s task.Source) sourceFields {
	return sourceFields{s.Kind, s.Path, s.URL, s.Command, duration(s.Every)}
}

func (f sourceFields) source() task.Source {
	return task.Source{
		Kind: f.Kind, Path: f.Path, URL: f.URL, Command: f.Command, Every: time.Duration(f.Every),
	}
}

type policyFields struct {
	Moves   *int      `json:"moves_per_round,omitempty"`
	New     *int      `json:"new_per_round,omitempty"`
	Penalty *duration `json:"penalty,omitempty"`
	Warmup  *duration `json:"warmup,omitempty"`
}

// groupView is a group in the API's JSON. Its configuration is read through pointers into the
// Group, but for the source.
type groupView struct {
	Name string `json:"name"`
	groupFields
	Created    *time.Time `json:"created"`
	Jobs       int64      `json:"jobs"`
	Wanted     int        `json:"wanted"`
	Running    int        `json:"running"`
	Starting   int        `json:"starting"`
	Failed     int        `json:"failed"`
	Pending    int        `json:"pending"`
	Moving     int        `json:"moving"`
	Ending     int        `json:"ending"`
	Supervisor string     `json:"supervisor"`
	Budget     JobBudget  `json:"budget"`
	Read       readView   `json:"source_read"`
}

type readView struct {
	Tried   *time.Time `json:"tried"`
	Good    *time.Time `json:"good"`
	Error   string     `json:"error"`
	Pending bool       `json:"pending"`
}

// overGroup ties the view's fields to those of g.
func overGroup(g *Group) groupView {
	p := &g.Policy
	return groupView{
		Name: g.Name, Created: orNone(g.Created), Jobs: g.Jobs, Wanted: g.Wanted,
		Running: g.Running, Starting: g.Starting, Failed: g.Failed,
		Pending: g.Pending, Moving: g.Moving, Ending: g.Ending, Supervisor: g.Supervisor,
		Budget: g.Budget,
		Read:   readView{orNone(g.Read.Tried), orNone(g.Read.Good), g.Read.Error, g.Read.Pending},
		groupFields: groupFields{
			Replicas: &g.Replicas, Selector: &g.Selector, Spread: &g.Spread,
			Source: new(sourceOf(g.Source)), Paused: &g.Paused,
			Silence: (*duration)(&g.Silence), JobSilence: (*duration)(&g.JobSilence),
			Title: &g.Title, Owner: &g.Owner,
			Policy: &policyFields{
				&p.Moves, &p.New, (*duration)(&p.Penalty), (*duration)(&p.Warmup),
			},
		},
	}
}

// orNone is a time in JSON: the zero one is null.
func orNone(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orZero is its inverse.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// MarshalJSON writes the group as the API does.
func (g Group) MarshalJSON() ([]byte, error) { return json.Marshal(overGroup(&g)) }

// UnmarshalJSON reads the group as the API writes it; fields that are left out stay as they are.
func (g *Group) UnmarshalJSON(b []byte) error {
	v := overGroup(g)
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	g.Name, g.Source = v.Name, v.Source.source()
	g.Created = orZero(v.Created)
	g.Jobs = v.Jobs
	g.Wanted = v.Wanted
	g.Running = v.Running
	g.Starting = v.Starting
	g.Failed = v.Failed
	g.Pending = v.Pending
	g.Moving = v.Moving
	g.Ending = v.Ending
	g.Supervisor = v.Supervisor
	g.Budget = v.Budget
	g.Read = SourceRead{orZero(v.Read.Tried), orZero(v.Read.Good), v.Read.Error, v.Read.Pending}
	return nil
}

func groupPath(name string) string { return "/v1/groups/" + segment(name) }

// Groups lists all groups, by name.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	groups, err := list[Group](ctx, c, "/v1/groups")
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return groups, nil
}

// Group reads one group.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	var g Group
	if err := c.get(ctx, request{path: groupPath(name)}, &g); err != nil {
		return Group{}, fmt.Errorf("read group %q: %w", name, err)
	}
	return g, nil
}

// PutGroup creates a group or changes its configuration, and returns all of it.
func (c *Client) PutGroup(
	ctx context.Context, name string, change GroupChange,
) (task.Group, error) {
	var g Group
	body, err := json.Marshal(change)
	if err == nil {
		err = c.send(ctx,
			request{method: http.MethodPut, path: groupPath(name), body: body, safe: true}, &g)
	}
	if err != nil {
		return task.Group{}, fmt.Errorf("configure group %q: %w", name, err)
	}
	return g.Group, nil
}

// DeleteGroup deletes a group; its workers end what they run of it. One that has jobs is deleted
// only with force, else it is ErrConflict.
func (c *Client) DeleteGroup(ctx context.Context, name string, force bool) error {
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: groupPath(name), query: query}, nil,
	); err != nil {
		return fmt.Errorf("delete group %q: %w", name, err)
	}
	return nil
}

// PauseGroup stops starting, moving and ending anything of a group; what runs goes on.
func (c *Client) PauseGroup(ctx context.Context, name string) error {
	return c.askGroup(ctx, name, "pause")
}

// ResumeGroup undoes PauseGroup.
func (c *Client) ResumeGroup(ctx context.Context, name string) error {
	return c.askGroup(ctx, name, "resume")
}

// RefreshGroup asks the node that looks after a group to read its source now; Group.Read says what
// came of it.
func (c *Client) RefreshGroup(ctx context.Context, name string) error {
	return c.askGroup(ctx, name, "refresh")
}

// RebalanceGroup asks the node that looks after a group to spend the budget of moves now.
func (c *Client) RebalanceGroup(ctx context.Context, name string) error {
	return c.askGroup(ctx, name, "rebalance")
}

func (c *Client) askGroup(ctx context.Context, name, verb string) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: groupPath(name) + "/" + verb, safe: true}, nil,
	); err != nil {
		return fmt.Errorf("%s group %q: %w", verb, name, err)
	}
	return nil
}
