// Package tracecontext knows the two strings by which a trace travels with a task, as its meta and
// as variables of a command's environment: W3C's traceparent and tracestate. Rota begins no spans
// of its own: it passes on what is well formed, and leaves out what is not.
package tracecontext

import (
	"maps"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// What a task's meta calls the two, and what environments do.
const (
	Parent, State                 = "traceparent", "tracestate"
	ParentVariable, StateVariable = "TRACEPARENT", "TRACESTATE"
)

// Of is what meta says of the trace that its task belongs to; "" = nothing, or nothing that is well
// formed. There is no state without a parent.
func Of(meta map[string]string) (parent, state string) {
	return sound(meta[Parent], meta[State])
}

// With is meta with the trace that an environment tells of, when it is well formed. What meta says
// of a trace itself stands, and where the strings of a task have no room it is left out: a trace
// refuses no task. meta itself stays as it is.
func With(meta map[string]string, env func(name string) (string, bool)) map[string]string {
	if _, own := meta[Parent]; own {
		return meta
	}
	parent, _ := env(ParentVariable)
	state, _ := env(StateVariable)
	if parent, state = sound(parent, state); parent == "" {
		return meta
	}
	for _, s := range []string{state, ""} {
		all := maps.Clone(meta)
		if all == nil {
			all = map[string]string{}
		}
		delete(all, State) // it is of another trace
		all[Parent] = parent
		if s != "" {
			all[State] = s
		}
		var wrong task.InvalidError
		if limits.CheckMeta(all, &wrong, "meta"); wrong.Err() == nil {
			return all
		}
	}
	return meta
}

// sound leaves out what is not well formed.
func sound(parent, state string) (string, string) {
	switch {
	case !validParent(parent):
		return "", ""
	case !validState(state):
		return parent, ""
	}
	return parent, state
}

// validParent tells whether s is a version, the id of a trace, that of a span, and flags, in hex of
// lower case: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01. Later versions may have more
// behind another dash.
func validParent(s string) bool {
	const length = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(s) < length || len(s) > limits.MaxMetaValue {
		return false
	}
	version, trace, span, flags, rest := s[:2], s[3:35], s[36:52], s[53:55], s[55:]
	switch {
	case s[2] != '-' || s[35] != '-' || s[52] != '-',
		!hex(version) || !hex(trace) || !hex(span) || !hex(flags),
		version == "ff", zeroes(trace), zeroes(span),
		version == "00" && rest != "",
		rest != "" && rest[0] != '-':
		return false
	}
	for _, c := range []byte(rest) { // of a version that nobody knows yet
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

func hex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func zeroes(s string) bool { return strings.Trim(s, "0") == "" }

// maxMembers is how many systems a state may be of.
const maxMembers = 32

// validState tells whether s is a list of what systems say of a trace, each in its own words:
// vendor=opaque,tenant@vendor=opaque.
func validState(s string) bool {
	if s == "" || len(s) > limits.MaxMetaValue {
		return false
	}
	members := strings.Split(s, ",")
	if len(members) > maxMembers {
		return false
	}
	seen := map[string]bool{}
	for _, member := range members {
		key, value, ok := strings.Cut(strings.Trim(member, " \t"), "=")
		if !ok || !validKey(key) || !validValue(value) || seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

func validKey(s string) bool {
	if s == "" || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", rune(s[0])) {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("_-*/@", c) >= 0) {
			return false
		}
	}
	return true
}

func validValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return s != ""
}
