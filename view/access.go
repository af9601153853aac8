package view

// Access says who a call is by, and what that one may do.
type Access struct {
	Name      string       `json:"name" doc:"the token's"`
	Role      string       `json:"role" enum:"admin,operator,submitter,worker,viewer"`
	Anonymous bool         `json:"anonymous" doc:"this node has no access tokens: whoever reaches it may do everything"`
	May       []string     `json:"may" nullable:"false" doc:"the rights of the role: prepare (read queues and nodes), read, submit (and cancel single tasks), work, operate, destroy (delete queues and groups, change notifiers)"`
	Scope     *AccessScope `json:"scope,omitempty" doc:"what the token reaches; left out = everything"`
}

// AccessScope is what a token reaches, as its line in the token file says it.
type AccessScope struct {
	Queues   []string `json:"queues" nullable:"false" doc:"names, or beginnings of names with a * behind them"`
	Groups   []string `json:"groups" nullable:"false"`
	Labels   []string `json:"labels" nullable:"false" doc:"NAME:VALUE, that a worker may declare"`
	Capacity float64  `json:"capacity" doc:"that a worker may declare; 0 = any"`
}
