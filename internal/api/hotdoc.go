package api

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/task"
)

var (
	submitDoc = described{
		op: huma.Operation{
			OperationID: "submit-tasks", Method: http.MethodPost, Path: "/v1/tasks",
			Tags:        []string{"Tasks"},
			Summary:     "Submit tasks",
			Description: "All or none, durably before the answer; the answer is in the same order. A queue comes to be at the first submission to it.",
		},
		status:  http.StatusCreated,
		example: `{"tasks":[{"queue":"mail","context":{"to":"ann"},"key":"welcome-ann"},{"queue":"mail","delay":"10m"}]}`,
		body:    submitIn{}, answer: submitOut{},
	}
	holdDoc = described{
		op: huma.Operation{
			OperationID: "hold-tasks", Method: http.MethodPost, Path: "/v1/tasks/hold",
			Tags:        []string{"Work"},
			Summary:     "Take tasks",
			Description: "Waits for the first task, then answers with what is there.",
		},
		status: http.StatusOK, example: `{"worker":"w1","queues":["mail"],"limit":10,"wait":"30s"}`,
		body: holdIn{}, answer: holdOut{},
	}
	reportDoc = described{
		op: huma.Operation{
			OperationID: "report-tasks", Method: http.MethodPost, Path: "/v1/tasks/report",
			Tags:    []string{"Work"},
			Summary: "Say what became of tasks",
			Description: "Durably before the answer; the answer is in the same order. One bad report never spoils the others. The same report " +
				"may be sent again.",
		},
		status: http.StatusOK,
		example: `{"worker":"w1","reports":[{"id":"` + anID +
			`","token":"5.1.0.9","outcome":"done","result":{"sent":true}}]}`, body: reportIn{},
		answer: reportOut{},
	}
	beatDoc = described{
		op: huma.Operation{
			OperationID: "beat", Method: http.MethodPost, Path: "/v1/workers/{worker}/beat",
			Tags:        []string{"Work"},
			Summary:     "Say that a worker lives and what it holds",
			Description: "A hand-out missing from two beats of its worker is lost. With wait it answers early when there is news after version.",
			Parameters: []*huma.Param{
				pathParameter("worker", "the worker's name"),
				queryParameter("wait", "at most 1m", duration{}, nil),
				queryParameter("version", "of the last answer", "", nil),
			},
		},
		status: http.StatusOK,
		example: `{"incarnation":"2026-11-21T08:00:00Z","capacity":8,"tasks":[{"id":"` + anID +
			`","token":"5.1.0.9","progress":0.5}]}`, body: beatIn{}, answer: beatOut{},
	}
)

// The bodies and answers of the calls that package wire reads and writes, for the document only. A
// test holds their fields against those that wire knows.

type submitIn struct {
	Tasks []submission `json:"tasks" nullable:"false" maxItems:"10000"`
}

type submission struct {
	Queue       string            `json:"queue" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128"`
	Stage       string            `json:"stage,omitempty" maxLength:"256" doc:"handed to the worker as it is"`
	Context     any               `json:"context,omitempty" doc:"any JSON value, kept byte for byte"`
	Priority    duration          `json:"priority,omitzero" doc:"head start in the queue"`
	Due         instant           `json:"due,omitzero" doc:"not before; not together with delay"`
	Delay       duration          `json:"delay,omitzero" doc:"due so long after the submission"`
	Key         string            `json:"key,omitempty" maxLength:"256" doc:"a key that exists in the queue answers with the first task"`
	KeyFor      duration          `json:"key_for,omitzero" doc:"how long the key is remembered; 7 days"`
	GroupKey    string            `json:"group_key,omitempty" maxLength:"256" doc:"whose the task is, for limits of each key of its queue, and turns; empty = nobody's"`
	MaxAttempts int               `json:"max_attempts,omitempty" minimum:"0" maximum:"1000000" doc:"per stage; 0 = the queue's"`
	Timeout     duration          `json:"timeout,omitzero" doc:"of one attempt; 0s = the queue's"`
	StartWithin duration          `json:"start_within,omitzero" doc:"so long after it is due it expires, unless it was handed out by then; 0s = it waits for ever"`
	Meta        map[string]string `json:"meta,omitempty" maxProperties:"16" doc:"short strings that go wherever the task goes, and that lists can be filtered by: names of at most 64 bytes (letters, digits, . - _ : @ +), texts of at most 256, 2 KiB in all"`
	Unique      *unique           `json:"unique,omitempty" doc:"only one task of the queue has this key at a time, see on_existing; not together with key"`
	OnExisting  string            `json:"on_existing,omitempty" enum:"keep,replace,debounce,refuse" default:"keep" doc:"when another task has the unique key: keep answers its id; replace gives it this context, stage, priority, due and meta, if it was never handed out; debounce also begins the delay anew; refuse is 409 for the whole call"`
	Orphan      bool              `json:"orphan,omitempty" doc:"of children only: it stays when its parent is dead, cancelled or expired before it begins"`
	Ref         string            `json:"ref,omitempty" maxLength:"256" doc:"what after of other tasks in this call names it by; not an id, and forgotten after the call, but that those which waited for it are told it"`
	After       []string          `json:"after,omitempty" maxItems:"1000" doc:"refs of other tasks in this call, or ids of tasks: they have to end before this one may begin, and its state is blocked until then; 100,000 in one call. Not together with start_within or unique"`
	If          string            `json:"if,omitempty" enum:"done,ended" default:"done" doc:"how those have to end: done, or the first that ends otherwise cancels this one; ended, in whatever state"`
}

type unique struct {
	Key   string   `json:"key" minLength:"1" maxLength:"256"`
	While string   `json:"while,omitempty" enum:"waiting,unfinished" default:"unfinished" doc:"waiting: the key is free again when the task is handed out for the first time; unfinished: when it is done, dead, cancelled, expired or deleted"`
	For   duration `json:"for,omitzero" doc:"the key is free again so long after it was taken, at the latest; 0s = no limit"`
}

type submitOut struct {
	Tasks []receipt `json:"tasks" nullable:"false"`
}

type receipt struct {
	ID       task.ID `json:"id"`
	Existing bool    `json:"existing" doc:"another task has the key: this is its id"`
	Action   string  `json:"action" enum:"created,kept,replaced,debounced" doc:"what became of it; kept also where the task was handed out before and can't be replaced"`
}

type holdIn struct {
	Worker string   `json:"worker" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128"`
	Queues []string `json:"queues" nullable:"false" minItems:"1" maxItems:"100"`
	Limit  int      `json:"limit,omitempty" minimum:"0" doc:"0 = the queue's hold_limit; above 1,000 it is 1,000"`
	Wait   duration `json:"wait,omitzero" doc:"for the first task; at most 1m"`

	Ahead       int    `json:"ahead,omitempty" minimum:"0" maximum:"1000" doc:"how many tasks may wait at the worker beyond its capacity; given only while no worker with free capacity waits"`
	Incarnation string `json:"incarnation,omitempty" doc:"that of the worker's beats, when it beats"`
}

type holdOut struct {
	Tasks        []handout `json:"tasks" nullable:"false"`
	PollInterval duration  `json:"poll_interval" doc:"how long to wait before the next call, for workers that do not long-poll"`
}

type handout struct {
	ID        task.ID           `json:"id"`
	Queue     string            `json:"queue"`
	Stage     string            `json:"stage"`
	Context   any               `json:"context,omitempty" doc:"byte for byte as it was given; left out = none"`
	Meta      map[string]string `json:"meta,omitempty" doc:"the short strings that it was submitted with; left out = none"`
	Attempt   int               `json:"attempt" doc:"1 for the first in this stage"`
	Token     string            `json:"token" doc:"give it back with the report"`
	Deadline  instant           `json:"deadline,omitzero" doc:"the outcome is refused after it"`
	Ready     instant           `json:"ready,omitzero" doc:"since when the task might run: when it was due, when its back-off was over, or when what it waited for had come"`
	ContextBy string            `json:"context_by,omitempty" doc:"the worker that wrote the context, in a report of an earlier stage; left out = it stands as it was submitted"`
	InScope   bool              `json:"in_scope,omitempty" doc:"the access token of that worker names the queue in its scope, or there are no access tokens"`
	Signal    *signal           `json:"signal,omitempty" doc:"the signal that ended the wait before this stage; at each of its attempts"`
	Children  *childCounts      `json:"children,omitempty" doc:"how its children had ended when they ended the wait before this stage; at each of its attempts"`
	TimedOut  bool              `json:"timed_out,omitempty" doc:"the wait before this stage was over without what it waited for"`
	Parent    *task.ID          `json:"parent,omitempty" doc:"of a child: the task that submitted it while it ran"`
	After     []prior           `json:"after,omitempty" doc:"the tasks that had to end before it could begin, in the order in which it named them, with what they left, 1 MiB in all; at each hand-out"`
}

type signal struct {
	Name    string  `json:"name"`
	Payload any     `json:"payload,omitempty" doc:"byte for byte as it was sent; left out = none"`
	By      string  `json:"by,omitempty" doc:"who sent it: the name of the caller's access token"`
	At      instant `json:"at,omitzero" doc:"when it was sent"`
}

type reportIn struct {
	Worker  string    `json:"worker" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128"`
	Reports []outcome `json:"reports" nullable:"false" maxItems:"10000"`
}

type outcome struct {
	ID      string   `json:"id"`
	Token   string   `json:"token"`
	Outcome string   `json:"outcome" enum:"done,next,retry,snooze,fail,release"`
	Stage   string   `json:"stage,omitempty" maxLength:"256" doc:"of next: the stage that follows"`
	Context any      `json:"context,omitempty" doc:"what is passed on; left out = the present one"`
	Result  any      `json:"result,omitempty" doc:"of done and fail: kept for whoever asks"`
	Delay   duration `json:"delay,omitzero" doc:"how long until the task is due again: of next (left out = at once), retry (left out = by the queue's back-off) and snooze"`
	Error   string   `json:"error,omitempty" doc:"for people; cut at 4,096 bytes"`

	Await awaitIn      `json:"await,omitempty" doc:"of next: what the task waits for, in nobody's hands, before the stage begins; not together with delay"`
	When  string       `json:"when,omitempty" enum:"all,first_dead" default:"all" doc:"beside an await that is the text children: until each of its children has ended, or besides until one is dead or expired"`
	Spawn []submission `json:"spawn,omitempty" maxItems:"10000" doc:"of done and next: children, submitted with the outcome and not without it; all reports of a call have at most 10,000. Their meta is that of the task, with their own on top; unique is not for them"`

	HoldKey duration `json:"hold_key,omitzero" doc:"of retry: so long, from when it is recorded, none of the tasks with the group key of this one begins, in its whole queue; 1ms to 24h; a pause that lasts longer stays, and a task without a group key holds nothing back"`

	Committed bool `json:"committed,omitempty" doc:"a transaction of the worker's own recorded the outcome (done or next) with the database's function finish: answered repeated; if none did, the task is tried again, and the answer is stale"`
}

// awaitIn is what a report may say of a wait: the text children, or an object.
type awaitIn struct{}

// Schema describes it in the OpenAPI document.
func (awaitIn) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString, Enum: []any{"children"}},
		r.Schema(reflect.TypeFor[await](), true, ""),
	}}
}

type await struct {
	Signal   string   `json:"signal,omitempty" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128" doc:"its name"`
	Key      string   `json:"key,omitempty" maxLength:"256" doc:"what whoever sends it names, too; left out = it is sent to this task"`
	Children string   `json:"children,omitempty" enum:"all,first_dead" doc:"in place of a signal: all, until each of its children has ended; first_dead, besides until one is dead or expired"`
	Timeout  duration `json:"timeout,omitzero" doc:"the wait is over after it; left out = never"`
	Else     string   `json:"else,omitempty" maxLength:"256" doc:"the stage that begins then; left out = the one that waits"`
}

type reportOut struct {
	Results []verdict `json:"results" nullable:"false"`
}

type verdict struct {
	ID      string      `json:"id"`
	Status  task.Status `json:"status" enum:"recorded,repeated,stale,unknown,invalid"`
	Detail  string      `json:"detail,omitempty"`
	Spawned []task.ID   `json:"spawned,omitempty" doc:"the ids of the children that came with it, in their order, also of a repeated report; of one whose key another task has, that one's"`
}

type beatIn struct {
	Incarnation string            `json:"incarnation" maxLength:"128" doc:"new with every start of the worker"`
	Capacity    float64           `json:"capacity,omitempty" minimum:"0" doc:"units of load it may carry; a task costs 1"`
	Labels      map[string]string `json:"labels,omitempty"`
	Zone        string            `json:"zone,omitempty"`
	Version     string            `json:"version,omitempty" maxLength:"256" doc:"of the worker's program, for people"`
	Load        task.Load         `json:"load,omitzero" doc:"of its machine, as shares of the maximum"`
	Groups      []string          `json:"groups,omitempty" nullable:"false" doc:"groups of jobs that it serves"`
	Queues      []string          `json:"queues,omitempty" nullable:"false" maxItems:"100" doc:"queues whose tasks it takes; for people, and to tell when nobody takes those of a queue"`
	Tasks       []held            `json:"tasks,omitempty" nullable:"false" maxItems:"10000" doc:"everything it holds"`
	Jobs        []run             `json:"jobs,omitempty" nullable:"false" maxItems:"10000" doc:"all replicas of jobs that it runs"`
	Leaving     bool              `json:"leaving,omitempty" doc:"gives everything back at once"`
}

type held struct {
	ID       task.ID `json:"id"`
	Token    string  `json:"token"`
	Progress float64 `json:"progress,omitempty" minimum:"0" maximum:"1"`
	Note     string  `json:"note,omitempty"`
}

type beatOut struct {
	Version string   `json:"version"`
	Beat    duration `json:"beat" doc:"until the next beat"`
	Tasks   []order  `json:"tasks" nullable:"false"`
	Jobs    jobsOut  `json:"jobs"`
}

type order struct {
	ID     task.ID     `json:"id"`
	Action task.Action `json:"action" enum:"continue,cancel,stale"`
}

type run struct {
	Group   string        `json:"group"`
	Job     string        `json:"job"`
	Replica int           `json:"replica,omitempty" doc:"from 0"`
	Token   string        `json:"token" doc:"as it was given"`
	State   task.JobState `json:"state,omitempty" enum:"starting,running,failed"`
	Error   string        `json:"error,omitempty" doc:"of a failed one, for people"`
	Alive   instant       `json:"alive,omitzero" doc:"when its handler gave its last sign, by the worker's clock: only a change of it means something. A worker that does not tell it is not judged by it"`
}

type jobsOut struct {
	Reset bool         `json:"reset" doc:"add is all that it is to run; what it runs and is in add goes on"`
	Add   []assignment `json:"add" nullable:"false" doc:"replicas to start"`
	End   []run        `json:"end" nullable:"false" doc:"replicas to end"`

	Silence duration `json:"silence,omitzero" doc:"how long the worker may go without an answered beat before others get its jobs: it is to stop them after four fifths of that. Left out: 15s"`
	Signs   bool     `json:"signs,omitempty" doc:"beats are to tell alive of each job"`
}

type assignment struct {
	Group   string  `json:"group"`
	Job     string  `json:"job"`
	Replica int     `json:"replica"`
	Token   string  `json:"token" doc:"say it with every beat; its number, before the dot, is greater for every later assignment of the group: to fence what the job writes elsewhere"`
	Load    float64 `json:"load" doc:"of the worker's capacity"`
	Spec    any     `json:"spec,omitempty" doc:"byte for byte as it was given; left out = none"`
}
