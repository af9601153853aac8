package view

// Hook lets somebody else's program call a node, as it is shown: without its secrets.
type Hook struct {
	Name   string `json:"name"`
	Scheme string `json:"scheme" doc:"how what comes is signed"`
	// Secrets is how many it knows: what comes may be signed with any of them.
	Secrets   int      `json:"secret_count" doc:"how many secrets it knows: what comes may be signed with any of them"`
	Header    string   `json:"header,omitempty" doc:"of scheme plain: the header with the signature"`
	Prefix    string   `json:"prefix,omitempty" doc:"of scheme plain: what stands before the signature"`
	Tolerance Duration `json:"tolerance,omitzero" doc:"how far the time that is signed may be from now"`
	ID        string   `json:"id,omitempty" doc:"where the id of a delivery stands: a JSON pointer into the body, or a header; left out = where the scheme has it"`
	Headers   []string `json:"headers,omitempty" doc:"headers that the task is told"`

	Queue    string            `json:"queue,omitempty" doc:"in which each delivery becomes a task"`
	Stage    string            `json:"stage,omitempty"`
	Priority Duration          `json:"priority,omitzero"`
	GroupKey string            `json:"group_key,omitempty" doc:"a JSON pointer into the body"`
	Meta     map[string]string `json:"meta,omitempty"`

	Signal string   `json:"signal,omitempty" doc:"the name of the signal that each delivery becomes"`
	Key    string   `json:"key,omitempty" doc:"of the signal: a JSON pointer into the body"`
	Keep   Duration `json:"keep,omitzero"`
}
