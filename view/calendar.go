package view

// Calendar is a whole calendar.
type Calendar struct {
	Name string   `json:"name"`
	Skip []string `json:"skip" nullable:"false" doc:"days on which nothing is due"`
	Keep []string `json:"keep" nullable:"false" doc:"the only days on which something is"`
}

// CalendarLine is a calendar in a list.
type CalendarLine struct {
	Name  string `json:"name"`
	Skip  int    `json:"skip" doc:"how many days on which nothing is due"`
	Keep  int    `json:"keep" doc:"how many days on which alone something is"`
	First string `json:"first" doc:"the first of these days"`
	Last  string `json:"last"`
}
