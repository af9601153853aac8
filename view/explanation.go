package view

// Explanation says why a task, or the tasks of a queue, do not run, or why nobody looks after a
// key.
type Explanation struct {
	State   string   `json:"state" doc:"of a task: its state; of a queue: empty, sleeping, paused, unserved, limited, full, working; of a key: owned, unowned"`
	Reasons []Reason `json:"reasons" nullable:"false" doc:"what holds it back now, the hardest first; none = nothing does"`
	Starts  Time     `json:"starts,omitzero" doc:"when a waiting or ready task probably begins; left out where it can't be said"`
	Expires Time     `json:"expires,omitzero" doc:"when it expires, unless somebody begins it before"`
}

// ReasonKind is one thing that may hold a task back.
type ReasonKind string

// Kinds of reasons.
const (
	ReasonPaused     ReasonKind = "paused"       // its queue hands nothing out
	ReasonNotDue     ReasonKind = "not_due"      // its time has not come
	ReasonBackingOff ReasonKind = "backing_off"  // it waits after an attempt that failed
	ReasonUnserved   ReasonKind = "unserved"     // no worker takes tasks of its queue
	ReasonLimit      ReasonKind = "limit"        // as many of its queue run as may
	ReasonKeyLimit   ReasonKind = "key_limit"    // a limit of its group key holds it back
	ReasonKeyPaused  ReasonKind = "key_paused"   // its group key hands nothing out
	ReasonRate       ReasonKind = "rate"         // its queue's tasks, or its key's, begin no faster
	ReasonTurn       ReasonKind = "turn"         // the group keys of its queue take turns
	ReasonFull       ReasonKind = "full"         // all workers that do have all they may have
	ReasonBehind     ReasonKind = "behind"       // others come first
	ReasonUnheard    ReasonKind = "unheard"      // who has it, or may know more, says nothing
	ReasonUnowned    ReasonKind = "unowned"      // no node looks after the key
	ReasonSignal     ReasonKind = "signal"       // it waits for a signal
	ReasonChildren   ReasonKind = "children"     // it waits for its children
	ReasonAfter      ReasonKind = "dependencies" // it waits for other tasks
	ReasonExpired    ReasonKind = "expired"      // nobody had begun it in time; it is over
	ReasonRefused    ReasonKind = "refused"      // the nodes that could take the key may not
)

// Reason is one thing that holds a task back.
type Reason struct {
	Kind   ReasonKind `json:"kind" enum:"paused,not_due,behind,unserved,full,limit,rate,key_limit,key_paused,turn,backing_off,unheard,unowned,refused,expired,signal,children,dependencies"`
	Text   string     `json:"text" doc:"for people"`
	Until  Time       `json:"until,omitzero" doc:"when it ends by itself"`
	Change string     `json:"change,omitempty" doc:"what would end it before: often a command"`
}
