package store

import (
	"strings"
	"time"
)

// EventsKept is how long events are kept.
const EventsKept = 30 * 24 * time.Hour

// Event is something that happened and that people may want to know of. Insert-only.
type Event struct {
	Seq  int64 // chosen by the store: 1, 2, 3 … in the order of commits, without a gap
	Time int64 // when it was appended; never before that of a smaller seq
	// what makes it one event however many nodes report it, as in "node.offline/NAME/TOKEN"
	Key  string
	Kind string // as in "node.offline"
	// Subject is the name of what it is about: a node, a notifier, a key.
	Subject string
	Text    string            // for people
	Fields  map[string]string // for programs; nil = none
}

// Kinds of events.
const (
	NodeOnline     = "node.online"
	NodeOffline    = "node.offline"
	StoreFull      = "store.full"
	StoreOK        = "store.ok" // again
	ClockStepped   = "clock.stepped"
	NotifierFailed = "notifier.failed"
	NotifierOK     = "notifier.ok" // again
)

// EventQuery asks for events in the order of their seq.
type EventQuery struct {
	After int64    // those with a greater seq
	Since int64    // of those the ones appended at or after this time; 0 = all
	Kinds []string // of those the ones whose kind one of these matches (see [Matches]); none = all
	Limit int      // at most so many
}

// EventPage is a piece of the event log.
type EventPage struct {
	Events []Event // by seq
	// Next is where to go on: nothing from After to it, both included, is left to be answered. It
	// examines a bounded number of events, so a page may be short, even empty, while Next has
	// moved; the end is where Next is After.
	Next int64
}

// Matches tells whether one of the patterns is name, or is a beginning of it with "*" behind it. No
// patterns match everything.
func Matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if start, open := strings.CutSuffix(p, "*"); p == name || open &&
			strings.HasPrefix(name, start) {
			return true
		}
	}
	return len(patterns) == 0
}
