package cron

import (
	"fmt"
	"time"
)

// Note says in a sentence what is unusual about a due time because clocks change about it; "" when
// nothing is.
func (s *Schedule) Note(t time.Time) string {
	for i := range s.rules {
		if r := &s.rules[i]; r.every == 0 && r.next(t.Unix()-1) == t.Unix() {
			return r.note(t.Unix())
		}
	}
	return ""
}

func (r *rule) note(t int64) string {
	now := at(r.zone, t)
	before, after := at(r.zone, now.start-1), at(r.zone, now.end)
	local := t + now.offset
	switch {
	case t == now.start && before.offset < now.offset && !r.elapsed:
		if missing, ok := r.local(t+before.offset, lastYear+1); ok && missing < local {
			return fmt.Sprintf(
				"clocks go forward: %s does not exist in %s, so it is due at the end of the gap",
				clock(missing), r.zone,
			)
		}
	case now.end < latest && after.offset < now.offset && local >= now.end+after.offset:
		if r.elapsed {
			return fmt.Sprintf("clocks are set back: %s comes twice in %s, this is the first",
				clock(local), r.zone)
		}
		return fmt.Sprintf("clocks are set back: %s comes twice in %s, and it is due at the first",
			clock(local), r.zone)
	case before.offset > now.offset && local < now.start+before.offset:
		return fmt.Sprintf("clocks are set back: %s comes twice in %s, this is the second",
			clock(local), r.zone)
	}
	return ""
}

// clock writes a local time.
func clock(local int64) string { return time.Unix(local, 0).UTC().Format("2006-01-02 15:04") }
