package api

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/bucket"
	"github.com/rotahq/rota/internal/store"
)

// Each change that a caller makes is an event: its kind says what was done, its subject what to,
// its fields who did it and from where. Nothing of what was sent stands in it. It is told when the
// call is answered, and logged; see docs/adr/0033.

// audited is how a call that changes something is told.
type audited struct {
	kind    string // of the event, without auditPrefix
	verb    string // for people
	subject string // the part of the path that names what is changed; "" = none does
}

// auditPrefix begins the kinds of events about what callers did.
const auditPrefix = "audit."

// changes says how each call is told that may change something: the zero value is none that is. A
// call that is not a GET and not named here can't be registered. Submissions and what workers do
// are not told: they are in the tasks.
var changes = map[string]audited{
	"/":                            {},
	"POST /v1/tasks":               {},
	"POST /v1/tasks/hold":          {},
	"POST /v1/tasks/report":        {},
	"POST /v1/tasks/{id}/logs":     {},
	"POST /v1/tasks/cancel":        {"tasks.cancel", "cancelled tasks", ""},
	"POST /v1/tasks/retry":         {"tasks.retry", "retried tasks", ""},
	"POST /v1/tasks/patch":         {"tasks.edit", "edited tasks", ""},
	"PATCH /v1/tasks/{id}":         {"task.edit", "edited task", "id"},
	"DELETE /v1/tasks/{id}":        {"task.delete", "deleted task", "id"},
	"POST /v1/tasks/{id}/cancel":   {"task.cancel", "cancelled task", "id"},
	"POST /v1/tasks/{id}/retry":    {"task.retry", "retried task", "id"},
	"POST /v1/tasks/{id}/run":      {"task.run", "ran now task", "id"},
	"POST /v1/tasks/{id}/children": {},
	"POST /v1/tasks/{id}/signal":   {"task.signal", "sent a signal to task", "id"},
	"POST /v1/signals/{name}":      {"signal.send", "sent signal", "name"},

	"PUT /v1/queues/{queue}":         {"queue.put", "configured queue", "queue"},
	"DELETE /v1/queues/{queue}":      {"queue.delete", "deleted queue", "queue"},
	"POST /v1/queues/{queue}/pause":  {"queue.pause", "paused queue", "queue"},
	"POST /v1/queues/{queue}/resume": {"queue.resume", "resumed queue", "queue"},

	"PUT /v1/queues/{queue}/keys/{key}": {"key.put", "weighed a group key of queue", "queue"},
	"POST /v1/queues/{queue}/keys/{key}/pause": {"key.pause", "paused a group key of queue",
		"queue"},
	"POST /v1/queues/{queue}/keys/{key}/resume": {"key.resume", "resumed a group key of queue",
		"queue"},

	"DELETE /v1/workers/{worker}":       {"worker.delete", "removed worker", "worker"},
	"POST /v1/workers/{worker}/beat":    {},
	"POST /v1/workers/{worker}/drain":   {"worker.drain", "drained worker", "worker"},
	"POST /v1/workers/{worker}/undrain": {"worker.undrain", "undrained worker", "worker"},

	"PUT /v1/groups/{group}":         {"group.put", "configured group", "group"},
	"DELETE /v1/groups/{group}":      {"group.delete", "deleted group", "group"},
	"POST /v1/groups/{group}/pause":  {"group.pause", "paused group", "group"},
	"POST /v1/groups/{group}/resume": {"group.resume", "resumed group", "group"},
	"POST /v1/groups/{group}/refresh": {"group.refresh",
		"asked for a reading of the source of group", "group"},
	"POST /v1/groups/{group}/rebalance": {"group.rebalance",
		"asked for a rebalancing of group", "group"},
	"POST /v1/groups/{group}/plan":            {},
	"PUT /v1/groups/{group}/jobs":             {"jobs.put", "replaced the jobs of group", "group"},
	"POST /v1/groups/{group}/jobs":            {"jobs.add", "added jobs to group", "group"},
	"DELETE /v1/groups/{group}/jobs/{job}":    {"job.delete", "removed job", "job"},
	"POST /v1/groups/{group}/jobs/{job}/logs": {},
	"PUT /v1/schedules":                       {"schedules.put", "configured schedules", ""},
	"PUT /v1/schedules/{name}":                {"schedule.put", "configured schedule", "name"},
	"DELETE /v1/schedules/{name}":             {"schedule.delete", "deleted schedule", "name"},
	"POST /v1/schedules/{name}/pause":         {"schedule.pause", "paused schedule", "name"},
	"POST /v1/schedules/{name}/resume":        {"schedule.resume", "resumed schedule", "name"},
	"POST /v1/schedules/{name}/run":           {"schedule.run", "ran now schedule", "name"},
	"POST /v1/schedules/{name}/backfill":      {"schedule.backfill", "backfilled schedule", "name"},
	"POST /v1/schedules/preview":              {},
	"PUT /v1/calendars/{calendar}":            {"calendar.put", "configured calendar", "calendar"},
	"DELETE /v1/calendars/{calendar}":         {"calendar.delete", "deleted calendar", "calendar"},
	"POST /v1/nodes/{node}/drain":             {"node.drain", "drained node", "node"},
	"POST /v1/nodes/{node}/undrain":           {"node.undrain", "undrained node", "node"},
	"POST /v1/claims/rescan":                  {},
	"POST /v1/claims/release":                 {"claim.release", "released a claim", ""},
	"POST /v1/claims/assign":                  {"claim.assign", "assigned a claim", ""},
	"POST /v1/nodes/{node}/release":           {"node.release", "released claims of node", "node"},
	"PUT /v1/cluster":                         {"cluster.put", "configured the cluster", ""},
	"PUT /v1/notifiers/{name}":                {"notifier.put", "configured notifier", "name"},
	"DELETE /v1/notifiers/{name}":             {"notifier.delete", "deleted notifier", "name"},
	"POST /v1/notifiers/{name}/test":          {"notifier.test", "tested notifier", "name"},
	"PUT /v1/hooks/{name}":                    {"hook.put", "configured hook", "name"},
	"DELETE /v1/hooks/{name}":                 {"hook.delete", "deleted hook", "name"},
	"POST /v1/hooks/{name}":                   {}, // as submissions, which are not told
}

// note adds to what is told of a call.
func (w *answer) note(name string, value any) {
	if w.notes == nil {
		w.notes = map[string]string{}
	}
	w.notes[name] = fmt.Sprint(value)
}

// dry says that a call only shows what it would do, if it does: then nothing is told.
func (w *answer) dry(run bool) { w.quiet = run }

// auditCall tells of a call that was answered, if it may have changed something. What a node asks
// another one is told by the one that was asked by a caller.
func (a *API) auditCall(w *answer, r *http.Request, how audited) {
	done := w.status/100 == 2
	doubtful := w.status/100 == 5 && w.outcome != unchanged && a.conf.Reach() == nil
	if how.kind == "" || w.quiet || !done && !doubtful || w.who.peer {
		return
	}
	if how.subject == "job" {
		w.note("group", r.PathValue("group"))
	}
	if strings.HasPrefix(how.kind, "key.") {
		w.note("key", r.PathValue("key"))
	}
	if force := r.URL.Query().Get("force"); force != "" && force != "false" {
		w.note("force", true)
	}
	if w.status == http.StatusCreated {
		w.note("created", true)
	}
	a.auditor.add(change{
		audited: how, who: w.who, from: w.from, call: r.Pattern, subject: r.PathValue(how.subject),
		fields: w.notes, doubtful: doubtful,
	}, time.Now())
}

// change is what a caller did.
type change struct {
	audited
	who      principal
	from     string
	call     string // method and pattern
	subject  string
	fields   map[string]string
	doubtful bool // it may have been done
}

// event is a change as it is written down.
func (c *change) event() store.Event {
	fields := map[string]string{
		"by": c.who.Name, "role": string(c.who.Role), "from": c.from, "call": c.call,
	}
	maps.Copy(fields, c.fields)
	text := strings.TrimSpace(fmt.Sprintf("%s (%s, from %s) %s %s", c.who.Name, c.who.Role, c.from,
		c.verb, c.subject))
	if n := fields["changed"]; n != "" {
		text += ": " + n
	}
	if c.doubtful {
		fields["outcome"] = unknown
		text += "; whether it was done is not known"
	}
	return store.Event{Kind: auditPrefix + c.kind, Subject: c.subject, Text: text, Fields: fields}
}

// What a caller may have written down one by one; what comes faster is summed up. The log of events
// is for people, and goes to notifiers.
const (
	auditBurst     = 10 // of one caller and kind at once
	auditRate      = 1  // a second
	auditNodeBurst = 100
	auditNodeRate  = 10
	auditEvery     = 10 * time.Second // between two sums
	// callers and kinds that are known; all others are summed up together
	maxAuditRows = 100
)

// auditor tells of changes, and sums up those of callers who make many.
type auditor struct {
	tell func(store.Event)

	mu    sync.Mutex
	node  bucket.Bucket
	by    map[auditKey]*auditRow
	timer *time.Timer // runs while there is something to sum up
}

// auditKey is who does what.
type auditKey struct{ name, role, from, kind string }

type auditRow struct {
	bucket.Bucket
	sum *auditSum // nil = nothing
}

// auditSum is changes that were not told one by one.
type auditSum struct {
	first, last change
	calls       int
	changed     int64 // the sum of their counts
	since       time.Time
}

func newAuditor(tell func(store.Event)) *auditor {
	return &auditor{
		tell: tell, node: bucket.Bucket{Rate: auditNodeRate, Burst: auditNodeBurst,
			Left: auditNodeBurst}, by: map[auditKey]*auditRow{},
	}
}

func (a *auditor) add(c change, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	row := a.row(auditKey{c.who.Name, string(c.who.Role), c.from, c.kind}, now)
	if row.sum == nil && row.Look(now) >= 1 && a.node.Look(now) >= 1 {
		row.Left--
		a.node.Left--
		a.tell(c.event())
		return
	}
	if row.sum == nil {
		row.sum = &auditSum{first: c, since: now}
	}
	s := row.sum
	s.last = c
	s.calls++
	n, _ := strconv.ParseInt(c.fields["changed"], 10, 64) // "" and what is none count as 0
	s.changed += n
	if a.timer == nil {
		a.timer = time.AfterFunc(auditEvery, func() { a.flush(time.Now()) })
	}
}

// row is what is known of a caller and kind. When there are too many it is that of all others.
func (a *auditor) row(key auditKey, now time.Time) *auditRow {
	row := a.by[key]
	if row == nil && len(a.by) >= maxAuditRows {
		a.forget(now)
		if len(a.by) >= maxAuditRows {
			key = auditKey{name: others}
			row = a.by[key]
		}
	}
	if row == nil {
		row = &auditRow{
			Bucket: bucket.Bucket{Rate: auditRate, Burst: auditBurst, Left: auditBurst, At: now},
		}
		a.by[key] = row
	}
	return row
}

// forget drops rows that are as new.
func (a *auditor) forget(now time.Time) {
	for key, row := range a.by {
		if row.sum == nil && row.Look(now) == row.Burst {
			delete(a.by, key)
		}
	}
}

// flush tells what was summed up.
func (a *auditor) flush(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	for key, row := range a.by {
		if row.sum != nil {
			a.tell(row.sum.event(key, now))
			row.sum = nil
		}
	}
	a.forget(now)
}

func (s *auditSum) event(key auditKey, now time.Time) store.Event {
	if s.calls == 1 {
		return s.first.event()
	}
	c := s.first
	kind, verb := c.kind, c.verb
	by := fmt.Sprintf("%s (%s, from %s)", key.name, key.role, key.from)
	if key.name == others {
		kind, verb, by = "calls", "changed things", "many callers"
	}
	took := max(now.Sub(s.since).Round(time.Second), time.Second)
	text := fmt.Sprintf("%s %s %d times within %v", by, verb, s.calls, took)
	fields := map[string]string{
		"by": key.name, "role": key.role, "from": key.from, "calls": strconv.Itoa(s.calls),
		"since": s.since.UTC().Format(time.RFC3339Nano),
	}
	if key.name != others {
		fields["call"] = c.call
	}
	if c.subject != "" {
		fields["first"], fields["last"] = c.subject, s.last.subject
		text += fmt.Sprintf(", from %s to %s", c.subject, s.last.subject)
	}
	if s.changed > 0 {
		fields["changed"] = strconv.FormatInt(s.changed, 10)
	}
	return store.Event{Kind: auditPrefix + kind, Text: text, Fields: fields}
}
