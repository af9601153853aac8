package wire

import (
	"encoding/json"
	"errors"
	"strings"
)

// Parents are the schedules that one follows, as task.Schedule.After has them: names with commas
// between them. In JSON one name is a text, and several are a list; both ways are read.
type Parents string

// MarshalJSON writes one name, or none, as a text and several as a list.
func (p Parents) MarshalJSON() ([]byte, error) {
	if names := strings.Split(string(p), ","); len(names) > 1 {
		return json.Marshal(names)
	}
	return json.Marshal(string(p))
}

// UnmarshalJSON reads a text or a list.
func (p *Parents) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*p = Parents(text)
		return nil
	}
	var names []string
	if json.Unmarshal(b, &names) != nil {
		return errors.New("must be the name of a schedule, or a list of names")
	}
	for _, name := range names {
		if name == "" || strings.Contains(name, ",") {
			return errors.New("must be a list of names")
		}
	}
	*p = Parents(strings.Join(names, ","))
	return nil
}
