package hook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Limits of a hook.
const (
	MaxSecrets = 3       // while one is replaced by another
	MaxHeaders = 16      // that go into contexts
	MaxBody    = 1 << 20 // bytes of what comes

	// A shorter secret could be found out from one call that somebody has seen.
	minSecret    = 16 // bytes
	maxSecret    = 2048
	maxTolerance = 24 * time.Hour
)

// Complete fills in what was left out.
func Complete(h *store.Hook) {
	how := schemes[h.Scheme]
	if how == nil {
		return
	}
	if h.Scheme == plain && h.Header == "" {
		h.Header = "X-Signature"
	}
	if how.dated && h.Tolerance == 0 {
		h.Tolerance = 5 * time.Minute
	}
	if h.Headers == nil && h.Queue != "" {
		h.Headers = append([]string{"Content-Type"}, how.shown...)
	}
}

// Kept are the secrets of a hook that changes from what it was. Those that are left out stay, as
// long as the hook is signed in the same way.
func Kept(was, is *store.Hook) []store.Secret {
	if len(is.Secrets) == 0 && was.Scheme == is.Scheme {
		return was.Secrets
	}
	return is.Secrets
}

// Check says everything that is wrong with a hook, as a *task.InvalidError that shows no secret.
func Check(h *store.Hook) error {
	var e task.InvalidError
	if !limits.ValidName(h.Name) {
		e.Add("path.name", "%.40q %s", h.Name, limits.NameRule)
	}
	how := schemes[h.Scheme]
	if how == nil {
		e.Add("body.scheme", "must be one of %s", strings.Join(Schemes(), ", "))
		return e.Err()
	}
	checkSecrets(&e, h)
	if h.Scheme == plain {
		checkHeader(&e, "body.header", h.Header)
	}
	if !limits.ValidText(h.Prefix, 64) {
		e.Add("body.prefix", "must be at most 64 bytes of printable UTF-8")
	}
	if how.dated && (h.Tolerance < time.Second || h.Tolerance > maxTolerance) {
		e.Add("body.tolerance", "must be 1s to %v", maxTolerance)
	}
	if isPointer(h.ID) {
		checkPointer(&e, "body.id", h.ID)
	} else if h.ID != "" {
		checkShown(&e, "body.id", h.ID, h)
	}
	checkHeaders(&e, h)
	switch {
	case (h.Queue == "") == (h.Signal == ""):
		e.Add("body.queue", "give queue, for tasks, or signal, for signals")
	case h.Queue != "":
		limits.CheckSubmission(&task.Submission{
			Queue: h.Queue, Stage: h.Stage, Priority: h.Priority, Meta: h.Meta,
		}, &e, "body")
		if h.GroupKey != "" {
			checkPointer(&e, "body.group_key", h.GroupKey)
		}
	default:
		if !limits.ValidName(h.Signal) {
			e.Add("body.signal", "%.40q %s", h.Signal, limits.NameRule)
		}
		checkPointer(&e, "body.key", h.Key)
		if h.Keep != 0 && (h.Keep < limits.MinKeep || h.Keep > limits.MaxDuration) {
			e.Add("body.keep", "must be 1s to %v", limits.MaxDuration)
		}
	}
	unused(&e, h, how)
	return e.Err()
}

func checkSecrets(e *task.InvalidError, h *store.Hook) {
	if n := len(h.Secrets); n == 0 || n > MaxSecrets {
		e.Add("body.secrets", "must be 1 to %d; for another scheme they must be given again",
			MaxSecrets)
	}
	for i, s := range h.Secrets[:min(len(h.Secrets), MaxSecrets)] {
		at := fmt.Sprintf("body.secrets[%d]", i)
		switch _, err := keyOf(h.Scheme, s); {
		case err != nil:
			e.Add(at, "%v", err)
		case len(s) < minSecret || len(s) > maxSecret:
			e.Add(at, "must be %d to %d bytes: take 32 that nobody can guess", minSecret, maxSecret)
		case slices.Contains(h.Secrets[:i], s):
			e.Add(at, "comes twice")
		}
	}
}

func checkPointer(e *task.InvalidError, at, pointer string) {
	if !validPointer(pointer) || !limits.ValidText(pointer, limits.MaxKey) {
		e.Add(at, "must be a JSON pointer into the body of at most %d bytes, as /order/id",
			limits.MaxKey)
	}
}

func checkHeaders(e *task.InvalidError, h *store.Hook) {
	if len(h.Headers) > MaxHeaders {
		e.Add("body.headers", "must be at most %d", MaxHeaders)
	}
	seen := map[string]bool{}
	for i, name := range h.Headers[:min(len(h.Headers), MaxHeaders)] {
		at := fmt.Sprintf("body.headers[%d]", i)
		checkShown(e, at, name, h)
		if lower := strings.ToLower(name); seen[lower] {
			e.Add(at, "comes twice")
		} else {
			seen[lower] = true
		}
	}
}

// credentials are headers that are shown to nobody, besides those that prove who calls a hook.
var credentials = []string{"authorization", "proxy-authorization", "cookie"}

func checkHeader(e *task.InvalidError, at, name string) (ok bool) {
	if ok = name != "" && len(name) <= 64 && strings.IndexFunc(name, notInHeaders) < 0; !ok {
		e.Add(at, "must be the name of a header: letters, digits, - and _, at most 64")
	}
	return ok
}

// checkShown adds what is wrong with a header that tasks are told. It must not be one by which
// somebody proves who it is: with that another call might be made.
func checkShown(e *task.InvalidError, at, name string, h *store.Hook) {
	if checkHeader(e, at, name) && (strings.EqualFold(name, h.Header) || proves(name)) {
		e.Add(at, "must not be a header by which a caller proves who it is")
	}
}

func notInHeaders(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' ||
		r == '_')
}

func proves(name string) bool {
	if slices.Contains(credentials, strings.ToLower(name)) {
		return true
	}
	for _, s := range schemes {
		if slices.ContainsFunc(s.proof, func(p string) bool { return strings.EqualFold(p, name) }) {
			return true
		}
	}
	return false
}

// unused says what was given that means nothing for the hook.
func unused(e *task.InvalidError, h *store.Hook, how *scheme) {
	given := map[string]bool{
		"header":    h.Header != "" && h.Scheme != plain,
		"prefix":    h.Prefix != "" && h.Scheme != plain,
		"tolerance": h.Tolerance != 0 && !how.dated,
	}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		if given[field] {
			e.Add("body."+field, "means nothing for scheme %s", h.Scheme)
		}
	}
	switch {
	case h.Queue == "" && (h.Stage != "" || h.Priority != 0 || h.GroupKey != "" || h.Meta != nil ||
		h.ID != "" || len(h.Headers) > 0):
		e.Add("body.signal", "stage, priority, group_key, meta, id and headers are for tasks")
	case h.Signal == "" && (h.Key != "" || h.Keep != 0):
		e.Add("body.queue", "key and keep are for signals")
	}
}
