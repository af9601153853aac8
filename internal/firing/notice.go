package firing

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// notified says which events of an open fire were written already, so that not every look writes
// them again.
type notified struct{ submitted, slow bool }

// followUp is what an open fire needs done now.
type followUp struct {
	events   []store.Event  // to be appended
	notified notified       // once they are
	end      *store.FireEnd // to be written into its row; nil = nothing
}

// followUp decides what an open fire needs done. The events' keys keep an event from being stored
// twice; known only saves the attempt.
func (s *scheduleState) followUp(o *store.OpenFire, now int64, known notified) followUp {
	v := followUp{notified: known}
	switch o.Outcome {
	case task.FireQueued:
		return v
	case task.FireSkipped, task.FireMissed: // it is open, so somebody wants an event
		v.notify(s, o, task.NoticeMissed, fmt.Sprint(o.At))
		v.end = endOf(o, task.KindCancelled)
		return v
	}
	if !known.submitted {
		v.notified.submitted = v.notify(s, o, task.NoticeSubmitted, fmt.Sprint(o.Tries))
	}
	since := o.Time
	if o.Tries > 0 { // it was replayed, or went on
		since = o.Finished
	}
	if !known.slow && !o.Final && lateness(since, now) >= s.Notices.Slow {
		v.notified.slow = v.notify(s, o, task.NoticeSlow, fmt.Sprint(o.Tries))
	}
	news := false
	if o.Found && o.Step > o.Seq {
		news = v.notifyStep(s, o)
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
	return &store.FireEnd{
		Schedule: o.Schedule, At: o.At, Task: o.Task, Ended: kind, Seq: max(o.Seq, o.Step),
	}
}

// notifyStep adds the events that a task's newest step calls for, and reports whether there are
// any. Of several steps between two looks only the newest is seen.
func (v *followUp) notifyStep(s *scheduleState, o *store.OpenFire) (added bool) {
	step := fmt.Sprint(o.Step)
	if o.Kind == task.KindTimeout {
		added = v.notify(s, o, task.NoticeTimeout, step)
	}
	switch {
	case o.Final && o.Kind == task.KindDone:
		return v.notify(s, o, task.NoticeDone, step)
	case o.Final && failed(o.Kind):
		return v.notify(s, o, task.NoticeDead, step) || added
	case !o.Final && (o.Kind == task.KindRetry || o.Kind == task.KindLost):
		return v.notify(s, o, task.NoticeFailed, step)
	}
	return added
}

// notify adds an event if the schedule wants it, and reports whether it does. nth distinguishes it
// from other events of its kind about the same task.
func (v *followUp) notify(s *scheduleState, o *store.OpenFire, what task.Notice, nth string) bool {
	origin := o.Origin
	if o.Tries > 0 {
		origin = task.OriginRetry
	}
	if !wants(&s.Notices, what, origin) {
		return false
	}
	kind := EventPrefix + string(what)
	fields := map[string]string{
		"at":     time.UnixMicro(o.At).UTC().Format("2006-01-02T15:04:05.000Z"),
		"origin": string(origin),
	}
	key := kind + "/" + s.Name + "/"
	if o.Task != (task.ID{}) {
		key += o.Task.String() + "/"
		fields["task"] = o.Task.String()
		fields["queue"] = s.Queue
	}
	if o.Error != "" && o.Step >= 0 {
		fields["error"] = o.Error
	}
	if o.Worker != "" {
		fields["worker"] = o.Worker
	}
	v.events = append(v.events, store.Event{
		Key: key + nth, Kind: kind, Subject: s.Name, Fields: fields,
		Text: fmt.Sprintf("schedule %s: %s", s.Name, s.noticeText(o, what)),
	})
	return true
}

// EventPrefix begins the kinds of events about schedules' tasks; a task.Notice follows.
const EventPrefix = "schedule."

// noticeText says in words what an event reports.
func (s *scheduleState) noticeText(o *store.OpenFire, what task.Notice) string {
	at := s.times.show(o.At)
	if what == task.NoticeMissed {
		if o.Count > 1 {
			return fmt.Sprintf("%d due times from %s to %s were %s: %s", o.Count, at,
				s.times.show(o.Through),
				o.Outcome, o.Reason)
		}
		return fmt.Sprintf("%s was %s: %s", at, o.Outcome, o.Reason)
	}
	became := map[task.Notice]string{
		task.NoticeSubmitted: "was submitted",
		task.NoticeFailed:    "failed, and is tried again",
		task.NoticeTimeout:   "took too long",
		task.NoticeDead:      "is dead",
		task.NoticeDone:      "is done",
		task.NoticeSlow:      fmt.Sprintf("is not final after %v", s.Notices.Slow),
	}[what]
	if what == task.NoticeDead && o.Kind == task.KindExpired {
		became = "has expired"
	}
	text := fmt.Sprintf("the task of %s (%s) %s", at, o.Task, became)
	if o.Error != "" &&
		(what == task.NoticeFailed || what == task.NoticeDead || what == task.NoticeTimeout) {
		text += ": " + o.Error
	}
	return text
}
