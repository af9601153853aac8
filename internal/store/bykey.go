package store

import "github.com/rotahq/rota/internal/admission"

// ByKey makes a take go by group keys: see storetest.Spans.
type ByKey struct {
	Fair  bool     // keys take turns; else rank decides, as far as keys have room
	After *string  // goes on behind this key; nil = with the first
	Skip  []string // keys of which the holder has enough
}

// KeyGate is how a group key of a queue stands beside the limits of each key.
type KeyGate struct {
	Queue, Key string
	admission.Gate
}
