package view

// Event is something that happened.
type Event struct {
	Seq     int64             `json:"seq" doc:"1, 2, 3 … without a gap but where the store was restored from a backup"`
	Time    Time              `json:"time"`
	Kind    string            `json:"kind" doc:"as in node.offline"`
	Subject string            `json:"subject" doc:"the name of what it is about"`
	Text    string            `json:"text" doc:"for people"`
	Fields  map[string]string `json:"fields" nullable:"false" doc:"for programs"`
}
