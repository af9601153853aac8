package view

// Notifier tells somebody of events, as it is shown: without its secrets.
type Notifier struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // email, webhook, submit or run
	// kinds of events; "node.*" is all that begin with "node.", "*" all
	On       []string `json:"on" nullable:"false"`
	Subjects []string `json:"subjects,omitempty"`
	URL      string   `json:"url,omitempty" doc:"without what is secret of it"`
	Signed   bool     `json:"signed" doc:"whether its messages are"`
	Format   string   `json:"format,omitempty"`
	Template string   `json:"template,omitempty"`
	Chat     string   `json:"chat,omitempty"`
	Server   string   `json:"server,omitempty"`
	TLS      string   `json:"tls,omitempty"`
	User     string   `json:"user,omitempty"`
	From     string   `json:"from,omitempty"`
	To       []string `json:"to,omitempty"`
	Queue    string   `json:"queue,omitempty" doc:"in which each event becomes a task"`
	Command  []string `json:"command,omitempty" doc:"the program that is run for each event"`

	Delivered int64  `json:"delivered" doc:"seq of the newest event that it was served"`
	Failing   Time   `json:"failing" nullable:"true" doc:"since when the next one can't be delivered"`
	Trouble   string `json:"trouble" doc:"why not"`
}
