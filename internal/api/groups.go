package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Groups looks after groups of jobs. Errors are those of an [Engine].
type Groups interface {
	GroupViews
	// ChangeGroup changes a configuration, or creates it. No other change is lost; see
	// store.Change.
	ChangeGroup(ctx context.Context, name string,
		change store.Change[task.Group]) (store.Changed[task.Group], error)
	// DeleteGroup forgets a group; its workers end what they run of it. With jobs, and without
	// force, it is a store.ErrConflict.
	DeleteGroup(ctx context.Context, name string, force bool) error
	// AskGroup asks the node that looks after a group to read its source, or to spend its budget of
	// moves, now.
	AskGroup(ctx context.Context, name string, refresh, rebalance bool) error
}

// GroupViews says how groups stand.
type GroupViews interface {
	// Groups lists them by name.
	Groups(context.Context) ([]store.GroupView, error)
	// Group is the named one, or a store.ErrNotFound.
	Group(ctx context.Context, name string) (store.GroupView, error)
}

// GroupConf is the whole configuration of a group. It is exported as TaskItem is.
type GroupConf struct {
	Name       string            `json:"name"`
	Replicas   int               `json:"replicas" doc:"of each job, on different workers"`
	Selector   map[string]string `json:"selector" doc:"labels that a worker must have"`
	Spread     string            `json:"spread" enum:"zone,worker" doc:"what the replicas of a job are spread over: zones where workers say theirs, or workers only"`
	Source     groupSource       `json:"source"`
	Policy     groupPolicy       `json:"policy"`
	Paused     bool              `json:"paused" doc:"nothing is started, moved or ended; what runs goes on"`
	Silence    duration          `json:"silence" doc:"a worker of which nothing is heard for so long loses the group's replicas; one that serves several groups goes by the shortest"`
	JobSilence duration          `json:"job_silence" doc:"a replica whose handler gives no sign for so long is started elsewhere; 0s = never"`
	Title      string            `json:"title" doc:"what people call it; empty = nothing"`
	Owner      string            `json:"owner" doc:"who answers for it, a name or a mail address; empty = nobody said"`
}

type groupSource struct {
	Kind    string   `json:"kind" enum:"api,file,url,command" doc:"where the list of jobs comes from"`
	Path    string   `json:"path,omitempty" doc:"of a file, on the nodes' machines"`
	URL     string   `json:"url,omitempty" doc:"without its password"`
	Command []string `json:"command,omitempty"`
	Every   duration `json:"every" doc:"between two readings"`
}

type groupPolicy struct {
	Moves   int      `json:"moves_per_round" doc:"replicas that move to a better worker, at a time; 0 = only what must move does"`
	New     int      `json:"new_per_round" doc:"replicas that one worker starts, at a time"`
	Penalty duration `json:"penalty" doc:"so long is a worker avoided on which a job just failed"`
	Warmup  duration `json:"warmup" doc:"so long, at most, a node that begins to look after the group waits for workers to say what they run"`
}

// groupItem is a group and how it stands.
type groupItem struct {
	GroupConf
	Created    instant    `json:"created" nullable:"true"`
	Jobs       int64      `json:"jobs"`
	Wanted     int        `json:"wanted" doc:"replicas of all jobs"`
	Running    int        `json:"running"`
	Starting   int        `json:"starting"`
	Failed     int        `json:"failed" doc:"replicas that ended by themselves and are to be started again"`
	Pending    int        `json:"pending" doc:"replicas without a worker; the list of assignments says why"`
	Moving     int        `json:"moving" doc:"replicas that run until their successors do"`
	Ending     int        `json:"ending"`
	Supervisor string     `json:"supervisor" doc:"the node that looks after it; empty = none does just now"`
	Budget     jobBudget  `json:"budget"`
	Read       sourceRead `json:"source_read" doc:"what came of the newest reading of its source"`
}

type jobBudget struct {
	Workers  int      `json:"workers" doc:"so many workers, whichever they are, can die at once with a place left for every replica of this group and of all that share workers with it"`
	Exact    bool     `json:"exact" doc:"else it may be more"`
	Weakest  []string `json:"weakest" nullable:"false" doc:"workers whose deaths would hurt most, the worst first"`
	Breaking []string `json:"breaking" nullable:"false" doc:"workers without which some replica is certain to have no place"`
	Groups   []string `json:"groups" nullable:"false" doc:"the groups whose replicas would lack room then"`
	Text     string   `json:"text" doc:"a sentence"`
}

type sourceRead struct {
	Tried   instant `json:"tried" nullable:"true"`
	Good    instant `json:"good" nullable:"true" doc:"when it worked last"`
	Error   string  `json:"error" doc:"why the newest reading failed; the list of jobs stayed as it was"`
	Pending bool    `json:"pending" doc:"somebody asked for a reading that is not done yet"`
}

func groupConfOf(g *task.Group) GroupConf {
	selector := g.Selector
	if selector == nil {
		selector = map[string]string{}
	}
	return GroupConf{
		Name: g.Name, Replicas: g.Replicas, Selector: selector, Spread: g.Spread,
		Source: groupSource{
			g.Source.Kind, g.Source.Path, redacted(g.Source.URL), g.Source.Command,
			duration{g.Source.Every},
		},
		Policy: groupPolicy{g.Policy.Moves, g.Policy.New, duration{g.Policy.Penalty},
			duration{g.Policy.Warmup}}, Paused: g.Paused,
		Silence: duration{g.Silence}, JobSilence: duration{g.JobSilence},
		Title: g.Title, Owner: g.Owner,
	}
}

// hidden stands in a URL where something is not shown.
const hidden = "xxxxx"

// redacted is a URL without what may let somebody in: its password, a user without one, which may
// be a token, and what its parameters say.
func redacted(full string) string {
	u, err := url.Parse(full)
	if err != nil {
		return ""
	}
	if _, password := u.User.Password(); !password && u.User != nil {
		u.User = url.User(hidden)
	}
	parameters := strings.Split(u.RawQuery, "&")
	for i, p := range parameters {
		if name, value, named := strings.Cut(p, "="); named && value != "" {
			parameters[i] = name + "=" + hidden
		} else if !named && p != "" {
			parameters[i] = hidden
		}
	}
	u.RawQuery = strings.Join(parameters, "&")
	if shown := u.Redacted(); shown != u.String() || strings.Contains(shown, hidden) {
		return shown
	}
	return full
}

// urlGiven is the URL that a group has from now on: who gives one as it is shown means the present
// one.
func urlGiven(is, given string) string {
	if given == redacted(is) {
		return is
	}
	return given
}

// groupOf is a group as it is shown to whom a scope lets see some groups.
func groupOf(v *store.GroupView, scope *scope) groupItem {
	return groupItem{
		GroupConf: groupConfOf(&v.Group.Group), Created: instantAt(v.Since), Jobs: v.Jobs,
		Wanted: v.Wanted, Running: v.Running, Starting: v.Starting,
		Failed: v.Failed, Pending: v.Pending, Moving: v.Moving, Ending: v.Ending,
		Supervisor: v.Supervisor, Budget: budgetOf(&v.Budget, scope),
		Read: readOf(v),
	}
}

// readOf says what came of the newest reading. Of a list that is given through the API none is ever
// due, even if somebody asked.
func readOf(v *store.GroupView) sourceRead {
	pending := v.Read.Refresh < v.Refresh && v.Source.Kind != task.SourceAPI
	return sourceRead{instantAt(v.Read.Time), instantAt(v.Read.Good), v.Read.Error, pending}
}

// budgetOf is how many workers a group can lose, as it is shown to whom a scope lets see some
// groups: of those that share workers with it, only these are named.
func budgetOf(b *store.JobBudget, scope *scope) jobBudget {
	out := jobBudget{
		Workers: b.Workers, Exact: b.Exact, Weakest: append([]string{}, b.Weakest...),
		Breaking: append([]string{}, b.Breaking...), Groups: append([]string{}, b.Groups...),
		Text: b.Text,
	}
	out.Groups = slices.DeleteFunc(out.Groups, func(name string) bool { return !scope.group(name) })
	if len(out.Groups) == len(b.Groups) {
		return out
	}
	const others = "counting groups that are not in the scope of this token"
	switch out.Text = "it is not certain that any worker can be spared, " + others; b.Workers {
	case 0:
	case 1:
		out.Text = "any one worker can die with a place left for every replica, " + others
	default:
		out.Text = fmt.Sprintf("any %d workers can die at once with a place left for every replica, %s",
			b.Workers, others)
	}
	return out
}

// groupIn is the body that changes a configuration. What is left out stays as it is, or gets its
// default in a new group.
type groupIn struct {
	Replicas   *int               `json:"replicas,omitempty" minimum:"1" maximum:"1000" doc:"of each job, on different workers; 1"`
	Selector   *map[string]string `json:"selector,omitempty" doc:"labels that a worker must have, all of them"`
	Spread     *string            `json:"spread,omitempty" enum:"zone,worker" doc:"what the replicas of a job are spread over: zones where workers say theirs, or workers only; zone"`
	Source     *sourceIn          `json:"source,omitempty"`
	Policy     *policyIn          `json:"policy,omitempty"`
	Paused     *bool              `json:"paused,omitempty" doc:"nothing is started, moved or ended; what runs goes on"`
	Silence    *duration          `json:"silence,omitempty" doc:"a worker of which nothing is heard for so long loses the group's replicas; one that serves several groups goes by the shortest; 15s, 3s to 24h"`
	JobSilence *duration          `json:"job_silence,omitempty" doc:"a replica whose handler gives no sign (a line of its log, a beat's alive) for so long is started elsewhere, and its worker told to end it; 0s = never, or at least 3s"`
	Title      *string            `json:"title,omitempty" maxLength:"256" doc:"what people call it, in any language; empty = nothing"`
	Owner      *string            `json:"owner,omitempty" maxLength:"256" doc:"who answers for it, a name or a mail address; empty = nobody"`
}

type sourceIn struct {
	Kind    *string   `json:"kind,omitempty" enum:"api,file,url,command" doc:"where the list of jobs comes from; api. Another kind than the present one forgets what that needed"`
	Path    *string   `json:"path,omitempty" doc:"file: an absolute path on the nodes' machines; holds what a url answers, or lines of a name and if need be a load and a spec"`
	URL     *string   `json:"url,omitempty" doc:"url: answers {\"jobs\":[…]} or the list alone; a password in it, a user without one and what its parameters say are never shown, and stay when it is given as it is shown"`
	Command *[]string `json:"command,omitempty" maxItems:"100" doc:"command: prints what a url answers; runs only on nodes that allow it"`
	Every   *duration `json:"every,omitempty" doc:"between two readings; 30m, at least 1s"`
}

type policyIn struct {
	Moves   *int      `json:"moves_per_round,omitempty" minimum:"0" maximum:"1000000" doc:"replicas that move to a better worker, at a time; 10"`
	New     *int      `json:"new_per_round,omitempty" minimum:"1" maximum:"1000000" doc:"replicas that one worker starts, at a time; 4"`
	Penalty *duration `json:"penalty,omitempty" doc:"so long is a worker avoided on which a job just failed; 1m"`
	Warmup  *duration `json:"warmup,omitempty" doc:"so long, at most, a node that begins to look after the group waits for workers to say what they run; 30s"`
}

// change applies what was given. It is a store.Change.
func (in *groupIn) change(g *task.Group, _ bool) error {
	set(&g.Replicas, in.Replicas)
	set(&g.Selector, in.Selector)
	set(&g.Spread, in.Spread)
	set(&g.Paused, in.Paused)
	setSpan(&g.Silence, in.Silence)
	setSpan(&g.JobSilence, in.JobSilence)
	set(&g.Title, in.Title)
	set(&g.Owner, in.Owner)
	if s := in.Source; s != nil {
		if s.Kind != nil && *s.Kind != g.Source.Kind {
			g.Source = task.Source{Kind: *s.Kind, Every: g.Source.Every}
		}
		set(&g.Source.Path, s.Path)
		if s.URL != nil {
			g.Source.URL = urlGiven(g.Source.URL, *s.URL)
		}
		set(&g.Source.Command, s.Command)
		setSpan(&g.Source.Every, s.Every)
	}
	if p := in.Policy; p != nil {
		set(&g.Policy.Moves, p.Moves)
		set(&g.Policy.New, p.New)
		setSpan(&g.Policy.Penalty, p.Penalty)
		setSpan(&g.Policy.Warmup, p.Warmup)
	}
	var e task.InvalidError
	limits.CheckGroup(g, &e, "body")
	return e.Err()
}

// GroupPath names a group.
type GroupPath struct {
	Group string `path:"group" doc:"the group's name" example:"tails"`
}

var putGroupDoc = described{
	op: huma.Operation{
		OperationID: "put-group", Method: http.MethodPut, Path: "/v1/groups/{group}",
		Tags:        []string{"Groups"},
		Summary:     "Create a group of jobs or change its configuration",
		Description: "What is left out stays as it is; in a new group it gets its default.",
		Parameters:  []*huma.Param{pathParameter("group", "the group's name")},
	},
	status:  http.StatusOK,
	example: `{"replicas":2,"selector":{"disk":"fast"},"policy":{"moves_per_round":5,"penalty":"30s"}}`,
	body:    groupIn{}, answer: GroupConf{}, also: map[int]any{http.StatusCreated: GroupConf{}},
}

// groupCalls are the calls about groups of jobs.
type groupCalls struct {
	door   *API
	groups Groups
}

func (c *groupCalls) register() {
	tags := []string{"Groups"}
	c.door.described(putGroupDoc, c.put)
	operation(c.door, huma.Operation{
		OperationID: "list-groups", Method: http.MethodGet, Path: "/v1/groups", Tags: tags,
		Summary: "List groups of jobs by name, and how they stand",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-group", Method: http.MethodGet, Path: "/v1/groups/{group}", Tags: tags,
		Summary: "Read a group's configuration, and how it stands",
	}, func(ctx context.Context, in *struct {
		GroupPath
		Caller
	}) (*struct{ Body groupItem }, error) {
		v, err := c.groups.Group(ctx, in.Group)
		if err != nil {
			return nil, err
		}
		return &struct{ Body groupItem }{groupOf(&v, in.who.scope)}, nil
	})
	operation(c.door, huma.Operation{
		OperationID: "delete-group", Method: http.MethodDelete, Path: "/v1/groups/{group}",
		Tags:    tags,
		Summary: "Delete a group and its jobs; workers end what they run of it",
	}, func(ctx context.Context, in *struct {
		GroupPath
		Force bool `query:"force" doc:"even if it has jobs"`
	}) (*struct{}, error) {
		return nil, named(c.groups.DeleteGroup(ctx, in.Group, in.Force), "group", in.Group)
	})
	c.pausing("pause", "Start, move and end nothing; what runs goes on", true)
	c.pausing("resume", "Start, move and end again what is to be", false)
	c.asking("refresh", "Read the group's source now", true, false)
	c.asking("rebalance", "Spend the budget of moves now", false, true)
}

func (c *groupCalls) put(w *answer, r *http.Request) error {
	name := r.PathValue("group")
	if !limits.ValidName(name) {
		return wrong("path.group", "%.40q %s", name, limits.NameRule)
	}
	var in groupIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	changed, err := c.groups.ChangeGroup(r.Context(), name, in.change)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if changed.Created {
		status = http.StatusCreated
	}
	c.door.writeValue(w, status, groupConfOf(&changed.Is))
	return nil
}

func (c *groupCalls) list(ctx context.Context, in *scopedPaging) (*listed[groupItem], error) {
	all, err := c.groups.Groups(ctx)
	if err != nil {
		return nil, err
	}
	all = visible(in.who, all, func(v *store.GroupView) bool { return in.who.scope.group(v.Name) })
	page, next, err := paged(all, func(v *store.GroupView) string {
		return v.Name
	}, groupShelf, in.Paging)
	if err != nil {
		return nil, err
	}
	items := make([]groupItem, len(page))
	for i := range page {
		items[i] = groupOf(&page[i], in.who.scope)
	}
	return &listed[groupItem]{list[groupItem]{items, next}}, nil
}

// pausing registers POST /v1/groups/{group}/NAME, which sets one field of a group that is
// there.
func (c *groupCalls) pausing(name, summary string, paused bool) {
	operation(c.door, huma.Operation{
		OperationID: name + "-group", Method: http.MethodPost, Path: "/v1/groups/{group}/" + name,
		Tags: []string{"Groups"}, Summary: summary,
	}, func(ctx context.Context, in *GroupPath) (*pausedOut, error) {
		err := error(store.ErrNotFound) // no store is asked for what can't be a name
		if limits.ValidName(in.Group) {
			_, err = c.groups.ChangeGroup(ctx, in.Group,
				func(g *task.Group, stands bool) error {
					g.Paused = paused
					if !stands {
						return store.ErrNotFound
					}
					return nil
				})
		}
		if err != nil {
			return nil, named(err, "group", in.Group)
		}
		out := &pausedOut{}
		out.Body.Name, out.Body.Paused = in.Group, paused
		return out, nil
	})
}

// askedOut answers refresh and rebalance.
type askedOut struct {
	Body struct {
		Name  string `json:"name"`
		Asked string `json:"asked" doc:"what the node that looks after the group will do with its next beat"`
	}
}

// asking registers POST /v1/groups/{group}/NAME.
func (c *groupCalls) asking(name, summary string, refresh, rebalance bool) {
	operation(c.door, huma.Operation{
		OperationID: name + "-group", Method: http.MethodPost, Path: "/v1/groups/{group}/" + name,
		Tags: []string{"Groups"}, Summary: summary,
		Description: "The node that looks after the group does, with its next beat.",
	}, func(ctx context.Context, in *GroupPath) (*askedOut, error) {
		if err := c.groups.AskGroup(ctx, in.Group, refresh, rebalance); err != nil {
			return nil, named(err, "group", in.Group)
		}
		out := &askedOut{}
		out.Body.Name, out.Body.Asked = in.Group, name
		return out, nil
	})
}
