package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Names come in by the path, by the query and in bodies, and behind these doors each has one form:
// see package names. What workers say is brought into it by the engine, which answers them in their
// own spelling.

// nameWords are what path and query call the names of things.
var nameWords = []string{
	"queue", "worker", "group", "job", "calendar", "node", "name", "owner",
}

// canonicalNames brings the names in a call's path and query into their one form.
func canonicalNames(r *http.Request) {
	for _, word := range nameWords {
		if given := r.PathValue(word); given != "" {
			if name := names.Canonical(given); name != given {
				r.SetPathValue(word, name)
			}
		}
	}
	if r.URL.RawQuery == "" {
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // checkQuery says so
		return
	}
	changed := false
	for _, word := range nameWords {
		for i, given := range query[word] {
			if name := names.Canonical(given); name != given {
				query[word][i], changed = name, true
			}
		}
	}
	if changed {
		u := *r.URL // others may have the present one
		u.RawQuery = query.Encode()
		r.URL = &u
	}
}

// checkNames refuses a call whose path has a name that is no text. No store is asked for one, as
// not all can be, and no event tells of it.
func checkNames(r *http.Request) error {
	for _, word := range nameWords {
		name := r.PathValue(word)
		switch {
		case limits.ValidText(name, maxParameter):
			continue
		case r.Method == http.MethodPut:
			return wrong("path."+word, "must be at most %d bytes of printable UTF-8", maxParameter)
		case word == "name": // of what the path lists, as /v1/hooks/{name}
			word, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
			word = strings.TrimSuffix(word, "s")
		}
		return named(store.ErrNotFound, word, name)
	}
	return nil
}

// bearer is a body with names in it.
type bearer interface{ canonical() }

func canonicalName(name *string) {
	if name != nil {
		*name = names.Canonical(*name)
	}
}

func canonicalJobs(jobs []task.Job) {
	for i := range jobs {
		canonicalName(&jobs[i].Name)
	}
}

func (in *assignIn) canonical() { canonicalName(&in.Node) }

func (in *queueIn) canonical() { canonicalName(in.FinalQueue) }

func (in *ScheduleIn) canonical() {
	canonicalName(in.Queue)
	if in.After != nil {
		list := names.All(strings.Split(string(*in.After), ","))
		*in.After = parents(strings.Join(list, ","))
	}
	canonicalName(in.Calendar)
}

func (in *schedulesIn) canonical() {
	for i := range in.Schedules {
		canonicalName(&in.Schedules[i].Name)
		in.Schedules[i].ScheduleIn.canonical()
	}
}

func (in *previewIn) canonical() {
	canonicalName(&in.Calendar)
	canonicalName(&in.Name)
}

func (in *BulkIn) canonical() {
	if in.Filter != nil {
		canonicalName(&in.Filter.Queue)
		canonicalName(&in.Filter.Worker)
	}
}

func (in *planIn) canonical() { in.Remove, in.Drain = names.All(in.Remove), names.All(in.Drain) }

func (in *hookIn) canonical() {
	canonicalName(&in.Queue)
	canonicalName(&in.Signal)
}

func (in *notifierIn) canonical() {
	in.Subjects = names.All(in.Subjects)
	canonicalName(&in.Queue)
}

// keyInQuery is the parameter of a call about a group key that stands in place of the key in its
// path, for callers that can't write one there: browsers fold "." and "..", however they are
// percent-encoded.
const keyInQuery = "key"

// keyOfQuery puts the key that a call has in its query where handlers look for it.
func keyOfQuery(r *http.Request) {
	if query := r.URL.Query(); query.Has(keyInQuery) {
		r.SetPathValue("key", query.Get(keyInQuery))
	}
}
