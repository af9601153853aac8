package firing

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// said is what was told already of the task of an open fire, and is not to be told again with every look.
type said struct{ submitted, slow bool }

// sight is what is to be done about an open fire.
type sight struct {
	events []store.Event
	said   said
	end    *store.FireEnd // nil = nothing is to be written down
}

// see says what to do about an open fire. That nothing is told twice is the events' keys' doing; what was told saves asking.
func (s *subject) see(o *store.OpenFire, now int64, known said) sight {
	v := sight{said: known}
	switch o.Outcome {
	case task.FireQueued:
		return v
	case task.FireSkipped, task.FireMissed: // open, so somebody is to be told
		v.tell(s, o, task.NoticeMissed, fmt.Sprint(o.At))
		v.end = endOf(o, task.KindCancelled)
		return v
	}
	if !known.submitted {
		v.said.submitted = v.tell(s, o, task.NoticeSubmitted, fmt.Sprint(o.Tries))
	}
	since := o.Time
	if o.Tries > 0 { // it began again then, or went on
		since = o.Finished
	}
	if !known.slow && !o.Final && lateness(since, now) >= s.Notices.Slow {
		v.said.slow = v.tell(s, o, task.NoticeSlow, fmt.Sprint(o.Tries))
	}
	news := false
	if o.Found && o.Step > o.Seq {
		news = v.tellStep(s, o)
	}
	switch {
	case !o.Found:
		v.end = endOf(o, task.KindRemoved)
	case o.Final:
		v.end = endOf(o, o.Kind)
	case news:
		v.end = endOf(o, 0)
	}
	return v
}

func endOf(o *store.OpenFire, kind task.Kind) *store.FireEnd {
	return &store.FireEnd{Schedule: o.Schedule, At: o.At, Task: o.Task, Ended: kind, Seq: max(o.Seq, o.Step)}
}

// tellStep tells of a task's newest step, if that is worth telling. Of several between two looks only the newest is seen.
func (v *sight) tellStep(s *subject, o *store.OpenFire) (told bool) {
	step := fmt.Sprint(o.Step)
	if o.Kind == task.KindTimeout {
		told = v.tell(s, o, task.NoticeTimeout, step)
	}
	switch {
	case o.Final && o.Kind == task.KindDone:
		return v.tell(s, o, task.NoticeDone, step)
	case o.Final && o.Kind.Leaves() == task.Dead:
		return v.tell(s, o, task.NoticeDead, step) || told
	case !o.Final && (o.Kind == task.KindRetry || o.Kind == task.KindLost):
		return v.tell(s, o, task.NoticeFailed, step)
	}
	return told
}

// tell adds an event, if the schedule wants it; nth tells it from others of its kind about the same task.
func (v *sight) tell(s *subject, o *store.OpenFire, what task.Notice, nth string) bool {
	origin := o.Origin
	if o.Tries > 0 {
		origin = task.OriginRetry
	}
	if !wants(&s.Notices, what, origin) {
		return false
	}
	kind := EventPrefix + string(what)
	fields := map[string]string{"at": time.UnixMicro(o.At).UTC().Format("2006-01-02T15:04:05.000Z"), "origin": string(origin)}
	about, subject := s.about(o, what), nth
	if o.Task != (task.ID{}) {
		fields["task"], fields["queue"] = o.Task.String(), s.Queue
		subject = o.Task.String() + "/" + nth
	}
	if o.Error != "" && o.Step >= 0 {
		fields["error"] = o.Error
	}
	if o.Worker != "" {
		fields["worker"] = o.Worker
	}
	v.events = append(v.events, store.Event{
		Key: kind + "/" + s.Name + "/" + subject, Kind: kind, Subject: s.Name, Text: fmt.Sprintf("schedule %s: %s", s.Name, about), Fields: fields,
	})
	return true
}

// EventPrefix begins the kinds of events about schedules' tasks; a task.Notice follows.
const EventPrefix = "schedule."

// about says in words what is told of a fire.
func (s *subject) about(o *store.OpenFire, what task.Notice) string {
	at := s.times.show(o.At)
	if what == task.NoticeMissed {
		if o.Count > 1 {
			return fmt.Sprintf("%d due times from %s to %s were %s: %s", o.Count, at, s.times.show(o.Through), o.Outcome, o.Reason)
		}
		return fmt.Sprintf("%s was %s: %s", at, o.Outcome, o.Reason)
	}
	said := map[task.Notice]string{
		task.NoticeSubmitted: "was submitted", task.NoticeFailed: "failed, and is tried again", task.NoticeTimeout: "took too long",
		task.NoticeDead: "is dead", task.NoticeDone: "is done", task.NoticeSlow: fmt.Sprintf("is not final after %v", s.Notices.Slow),
	}[what]
	text := fmt.Sprintf("the task of %s (%s) %s", at, o.Task, said)
	if o.Error != "" && (what == task.NoticeFailed || what == task.NoticeDead || what == task.NoticeTimeout) {
		text += ": " + o.Error
	}
	return text
}
