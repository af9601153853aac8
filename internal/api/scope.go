package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scope is what a token reaches, where its line in the token file says so: the queues and groups
// that it names and no others. A token without a scope (nil) reaches everything that its role may
// do.
type scope struct {
	queues, groups patterns
	labels         []label
	capacity       task.Units // that a worker may state, at most; 0 = any
}

// patterns are names, or beginnings of names with a * behind them.
type patterns []string

func (list patterns) match(name string) bool {
	name = names.Canonical(name)
	return slices.ContainsFunc(list, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	if head, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(name, head)
	}
	return pattern == name
}

// label is one that a worker may declare; a value may end with a *, too.
type label struct{ name, value string }

// zoneLabel is what the zone of a worker is called in a scope.
const zoneLabel = "zone"

func (s *scope) queue(name string) bool { return s == nil || s.queues.match(name) }
func (s *scope) group(name string) bool { return s == nil || s.groups.match(name) }

func (s *scope) label(name, value string) bool {
	return s == nil || slices.ContainsFunc(s.labels, func(l label) bool {
		return matches(l.name, name) && matches(l.value, value)
	})
}

// maxScope is how many names one word of a scope may have.
const maxScope = 1000

// scopeForm is what a line may say behind its token.
const scopeForm = "queues=NAME,… groups=NAME,… labels=NAME:VALUE,… capacity=UNITS"

// parseScope reads the words behind a token; none means no scope. Errors show nothing of what
// stands there: columns get mixed up.
func parseScope(words []string) (*scope, error) {
	if len(words) == 0 {
		return nil, nil
	}
	s := &scope{}
	seen := map[string]bool{}
	for _, word := range words {
		key, list, ok := strings.Cut(word, "=")
		if !ok || seen[key] || list == "" || strings.Count(list, ",") >= maxScope {
			return nil, errScope
		}
		seen[key] = true
		if err := s.set(key, list); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var errScope = errors.New("want NAME ROLE TOKEN, and behind that at most " + scopeForm)

func (s *scope) set(key, list string) error {
	items := strings.Split(list, ",")
	switch key {
	case "queues", "groups":
		for i, item := range items {
			items[i] = names.Canonical(item)
			if head, open := strings.CutSuffix(items[i], "*"); !limits.ValidName(head) &&
				(!open || head != "") {
				return fmt.Errorf(
					"%s= must list names, or beginnings of names with a * behind them", key,
				)
			}
		}
		if key == "queues" {
			s.queues = items
		} else {
			s.groups = items
		}
	case "labels":
		for _, item := range items {
			name, value, ok := strings.Cut(item, ":")
			if item == "*" {
				name, value, ok = "*", "*", true
			}
			if !ok || name == "" {
				return errors.New("labels= must list NAME:VALUE, or be *")
			}
			s.labels = append(s.labels, label{name, value})
		}
	case "capacity":
		number, err := strconv.ParseFloat(list, 64)
		if err == nil {
			s.capacity, err = task.ParseUnits(number)
		}
		if err != nil || s.capacity == 0 {
			return errors.New("capacity= must be a number of units above 0")
		}
	default:
		return errScope
	}
	return nil
}

// reach says how the scope of a token decides over a call.
type reach uint8

const (
	// it is about no queue and no group in particular: whoever has the role may make it
	ofNothing reach = iota + 1
	// it is about all of them, or about what they share: only tokens without a scope may make it
	ofAll
	ofQueue    // about the queue in its path
	ofGroup    // about the group in its path
	ofTask     // about the queue of the task in its path
	ofSchedule // about the queue of the schedule in its path
	// its handler looks at the names in its body, or answers with what is in the scope only
	ofChosen
)

// reaches says what each call is about. A call that is not named here cannot be registered.
var reaches = map[string]reach{
	"/": ofNothing, "GET /{$}": ofNothing, "GET /docs": ofNothing, "GET /page/{file}": ofNothing,
	"GET /console/{file}": ofNothing, "GET /v1/access": ofNothing,
	"GET /v1/stream": ofNothing, // the calls on it are about what they are over HTTP
	"GET /healthz":   ofNothing,
	"GET /readyz":    ofNothing, "GET /metrics": ofAll, "GET /openapi.json": ofNothing,

	"GET /v1/overview":        ofChosen,
	"GET /v1/overview/stream": ofChosen,

	"POST /v1/tasks":               ofChosen,
	"GET /v1/tasks":                ofChosen,
	"POST /v1/tasks/hold":          ofChosen,
	"POST /v1/tasks/report":        ofChosen,
	"POST /v1/tasks/cancel":        ofChosen,
	"POST /v1/tasks/retry":         ofChosen,
	"POST /v1/tasks/patch":         ofChosen,
	"PATCH /v1/tasks/{id}":         ofTask,
	"GET /v1/tasks/{id}":           ofTask,
	"GET /v1/tasks/{id}/explain":   ofTask,
	"DELETE /v1/tasks/{id}":        ofTask,
	"POST /v1/tasks/{id}/cancel":   ofTask,
	"POST /v1/tasks/{id}/retry":    ofTask,
	"POST /v1/tasks/{id}/run":      ofTask,
	"POST /v1/tasks/{id}/signal":   ofTask,
	"POST /v1/tasks/{id}/children": ofTask, // and its handler looks at the queues in its body
	"GET /v1/tasks/{id}/children":  ofTask, // and shows what is in the scope only
	"GET /v1/tasks/{id}/tree":      ofTask, // likewise
	"GET /v1/tasks/{id}/contexts":  ofTask,
	"POST /v1/signals/{name}":      ofAll, // whoever waits for it may be of any queue
	"POST /v1/tasks/{id}/logs":     ofTask,
	"GET /v1/tasks/{id}/logs":      ofTask,

	"GET /v1/stats":    ofChosen,
	"GET /v1/forecast": ofChosen,

	"GET /v1/queues":                 ofChosen,
	"GET /v1/queues/{queue}":         ofQueue,
	"GET /v1/queues/{queue}/explain": ofQueue,
	"PUT /v1/queues/{queue}":         ofQueue,
	"DELETE /v1/queues/{queue}":      ofQueue,
	"POST /v1/queues/{queue}/pause":  ofQueue,
	"POST /v1/queues/{queue}/resume": ofQueue,

	"GET /v1/queues/{queue}/keys":               ofQueue,
	"PUT /v1/queues/{queue}/keys/{key}":         ofQueue,
	"POST /v1/queues/{queue}/keys/{key}/pause":  ofQueue,
	"POST /v1/queues/{queue}/keys/{key}/resume": ofQueue,

	// they are nobody's own: most serve several queues and groups
	"GET /v1/workers":                   ofAll,
	"GET /v1/workers/{worker}":          ofAll,
	"DELETE /v1/workers/{worker}":       ofAll,
	"POST /v1/workers/{worker}/beat":    ofChosen,
	"POST /v1/workers/{worker}/drain":   ofAll,
	"POST /v1/workers/{worker}/undrain": ofAll,

	"GET /v1/groups":                            ofChosen,
	"GET /v1/groups/{group}":                    ofGroup,
	"PUT /v1/groups/{group}":                    ofGroup,
	"DELETE /v1/groups/{group}":                 ofGroup,
	"POST /v1/groups/{group}/pause":             ofGroup,
	"POST /v1/groups/{group}/resume":            ofGroup,
	"POST /v1/groups/{group}/refresh":           ofGroup,
	"POST /v1/groups/{group}/rebalance":         ofGroup,
	"POST /v1/groups/{group}/plan":              ofGroup,
	"GET /v1/groups/{group}/assignments":        ofGroup,
	"GET /v1/groups/{group}/jobs":               ofGroup,
	"PUT /v1/groups/{group}/jobs":               ofGroup,
	"POST /v1/groups/{group}/jobs":              ofGroup,
	"DELETE /v1/groups/{group}/jobs/{job}":      ofGroup,
	"GET /v1/groups/{group}/jobs/{job}/explain": ofGroup,
	"POST /v1/groups/{group}/jobs/{job}/logs":   ofGroup,
	"GET /v1/groups/{group}/jobs/{job}/logs":    ofGroup,

	"GET /v1/schedules":                  ofChosen,
	"PUT /v1/schedules":                  ofChosen,
	"GET /v1/schedules/{name}":           ofSchedule,
	"PUT /v1/schedules/{name}":           ofChosen,
	"DELETE /v1/schedules/{name}":        ofSchedule,
	"POST /v1/schedules/{name}/pause":    ofSchedule,
	"POST /v1/schedules/{name}/resume":   ofSchedule,
	"POST /v1/schedules/{name}/run":      ofSchedule,
	"POST /v1/schedules/{name}/backfill": ofSchedule,
	"GET /v1/schedules/{name}/fires":     ofSchedule,
	"GET /v1/schedules/{name}/runs/{at}": ofSchedule, // and shows what is in the scope only
	"GET /v1/schedules/{name}/audit":     ofSchedule,
	"POST /v1/schedules/preview":         ofNothing,
	"GET /v1/calendars":                  ofNothing, // they hold only days
	"GET /v1/calendars/{calendar}":       ofNothing,
	"PUT /v1/calendars/{calendar}":       ofAll, // and all schedules may have them
	"DELETE /v1/calendars/{calendar}":    ofAll,

	"GET /v1/nodes":                 ofNothing, // workers and callers turn to them
	"POST /v1/nodes/{node}/drain":   ofAll,
	"POST /v1/nodes/{node}/undrain": ofAll,
	"GET /v1/claims":                ofAll,
	"POST /v1/claims/rescan":        ofAll,
	"POST /v1/claims/release":       ofAll,
	"GET /v1/claims/{key}":          ofAll,
	"GET /v1/claims/{key}/explain":  ofAll,
	"POST /v1/claims/assign":        ofAll,
	"POST /v1/nodes/{node}/release": ofAll,
	"PUT /v1/cluster":               ofAll,
	"GET /v1/cluster":               ofAll,

	"GET /v1/events":                 ofAll,
	"GET /v1/events/stream":          ofAll,
	"GET /v1/notifiers":              ofAll,
	"GET /v1/notifiers/{name}":       ofAll,
	"PUT /v1/notifiers/{name}":       ofAll,
	"DELETE /v1/notifiers/{name}":    ofAll,
	"POST /v1/notifiers/{name}/test": ofAll,

	"GET /v1/hooks":           ofAll,
	"GET /v1/hooks/{name}":    ofAll,
	"PUT /v1/hooks/{name}":    ofAll,
	"DELETE /v1/hooks/{name}": ofAll,
	"POST /v1/hooks/{name}":   ofNothing, // it is about what the hook says
}

// within refuses a call about what is not in the scope of its caller's token. What is not there is
// for the handler to say.
func (a *API) within(r *http.Request, who principal, about reach) error {
	if who.scope == nil {
		return nil
	}
	switch about {
	case ofNothing, ofChosen:
		return nil
	case ofQueue:
		return who.mayQueue(r.PathValue("queue"))
	case ofGroup:
		return who.mayGroup(r.PathValue("group"))
	case ofTask:
		return a.mayTask(r.Context(), who, r.PathValue("id"))
	case ofSchedule:
		return a.maySchedules(r.Context(), who, r.PathValue("name"))
	}
	return refuse(http.StatusForbidden,
		"this call is about all queues and groups, and this token has a scope")
}

// visible are the items of a list that are in the scope of a token. The list stays as it is.
func visible[T any](who principal, list []T, in func(*T) bool) []T {
	if who.scope == nil {
		return list
	}
	some := make([]T, 0, len(list))
	for i := range list {
		if in(&list[i]) {
			some = append(some, list[i])
		}
	}
	return some
}

func (p principal) mayQueue(name string) error {
	if p.scope.queue(name) {
		return nil
	}
	return refuse(http.StatusForbidden, "queue %.140q is not in the scope of this token", name)
}

func (p principal) mayGroup(name string) error {
	if p.scope.group(name) {
		return nil
	}
	return refuse(http.StatusForbidden, "group %.140q is not in the scope of this token", name)
}

func (a *API) mayTask(ctx context.Context, who principal, text string) error {
	id, err := task.ParseID(text)
	if err != nil {
		return nil // it names no task
	}
	queues, err := a.queues.QueuesOf(ctx, []task.ID{id})
	if err != nil || queues[0] == "" || who.scope.queue(queues[0]) {
		return err
	}
	return refuse(http.StatusForbidden,
		"task %s is of a queue that is not in the scope of this token", id)
}

// maySchedules looks at the queues of schedules that are there.
func (a *API) maySchedules(ctx context.Context, who principal, names ...string) error {
	if who.scope == nil || len(names) == 0 { // without a name all would be read
		return nil
	}
	views, err := a.schedules.Schedules(ctx, store.ScheduleQuery{Names: names})
	if err != nil {
		return err
	}
	for i := range views {
		if !who.scope.queue(views[i].Queue) {
			return refuse(http.StatusForbidden,
				"schedule %.140q is of a queue that is not in the scope of this token",
				views[i].Name)
		}
	}
	return nil
}

// trusts tells whether what a worker writes into a task of a queue is as good as a submission: its
// own token names the queue. One that reaches every queue says nothing of this one, and neither
// does one for any worker.
func (t *Tokens) trusts(worker, queue string) bool {
	if len(t.by) == 0 {
		return true // everybody may submit
	}
	return slices.ContainsFunc(t.workers[worker], func(s *scope) bool { return s.queue(queue) })
}

// mayBeat looks at what a worker declares: its groups, its labels with its zone, its capacity.
func (p principal) mayBeat(b *task.Beat) error {
	if p.scope == nil {
		return nil
	}
	for _, group := range b.Groups {
		if err := p.mayGroup(group); err != nil {
			return err
		}
	}
	for i := range b.Jobs {
		if err := p.mayGroup(b.Jobs[i].Group); err != nil {
			return err
		}
	}
	for name, value := range b.Labels {
		if !p.scope.label(name, value) {
			return refuse(http.StatusForbidden,
				"label %.140q with value %.140q is not in the scope of this token", name, value)
		}
	}
	if b.Zone != "" && !p.scope.label(zoneLabel, b.Zone) {
		return refuse(http.StatusForbidden, "zone %.140q is not in the scope of this token", b.Zone)
	}
	if most := p.scope.capacity; most > 0 && b.Capacity > most.Float() {
		return refuse(http.StatusForbidden, "a capacity above %v is not in the scope of this token",
			most.Float())
	}
	return nil
}
