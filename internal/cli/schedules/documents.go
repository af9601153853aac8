package schedules

import (
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// The documents that -o json prints of due times are those of package view but for their times: the
// command line writes them without trailing zeros, and none as the year 1, as it always has.

// fireDoc is a view.Fire.
type fireDoc struct {
	At      time.Time        `json:"at"`
	Through time.Time        `json:"through"`
	Count   int64            `json:"count"`
	Origin  task.Origin      `json:"origin"`
	Outcome task.FireOutcome `json:"outcome"`
	Reason  string           `json:"reason"`
	Task    view.TaskID      `json:"task"`
	Ended   string           `json:"ended"`
	Node    string           `json:"node"`
	Fired   time.Time        `json:"fired"`
	Run     keyDoc           `json:"run"`
	After   []keyDoc         `json:"after"`
}

// keyDoc is a view.FireKey.
type keyDoc struct {
	Schedule string    `json:"schedule"`
	At       time.Time `json:"at"`
}

func docOfFire(f *view.Fire) fireDoc {
	after := make([]keyDoc, len(f.After))
	for i, k := range f.After {
		after[i] = keyDoc{k.Schedule, k.At.Time}
	}
	return fireDoc{
		f.At.Time, f.Through.Time, f.Count, f.Origin, f.Outcome, f.Reason, f.Task, f.Ended, f.Node,
		f.Fired.Time, keyDoc{f.Run.Schedule, f.Run.At.Time}, after,
	}
}

func docsOfFires(fires []view.Fire) []fireDoc {
	docs := make([]fireDoc, len(fires))
	for i := range fires {
		docs[i] = docOfFire(&fires[i])
	}
	return docs
}

func timesOf(list []view.Time) []time.Time {
	times := make([]time.Time, len(list))
	for i, at := range list {
		times[i] = at.Time
	}
	return times
}

// backfilledDoc is a view.Backfilled.
type backfilledDoc struct {
	Times []time.Time `json:"times"`
	Fired int64       `json:"fired"`
	Fires []fireDoc   `json:"fires"`
}

func docOfBackfilled(b *view.Backfilled) backfilledDoc {
	return backfilledDoc{timesOf(b.Times), b.Fired, docsOfFires(b.Fires)}
}

// auditDoc is a view.Audit.
type auditDoc struct {
	Schedule string        `json:"schedule"`
	Complete bool          `json:"complete"`
	From     time.Time     `json:"from"`
	To       time.Time     `json:"to"`
	Demanded int64         `json:"demanded"`
	Fired    int64         `json:"fired"`
	Skipped  int64         `json:"skipped"`
	Missed   int64         `json:"missed"`
	Queued   int64         `json:"queued"`
	Aside    int64         `json:"aside"`
	Holes    []time.Time   `json:"holes"`
	Strays   []time.Time   `json:"strays"`
	Late     view.Duration `json:"late"`
}

func docOfAudit(a *view.Audit) auditDoc {
	return auditDoc{
		Schedule: a.Schedule, Complete: a.Complete, From: a.From.Time, To: a.To.Time,
		Demanded: a.Demanded, Fired: a.Fired, Skipped: a.Skipped, Missed: a.Missed,
		Queued: a.Queued, Aside: a.Aside, Holes: timesOf(a.Holes), Strays: timesOf(a.Strays),
		Late: a.Late,
	}
}

// previewDoc is a view.Preview.
type previewDoc struct {
	Times    []time.Time `json:"times"`
	Notes    []noteDoc   `json:"notes"`
	Sentence string      `json:"sentence"`
	Chinese  string      `json:"chinese"`
	Zone     string      `json:"zone"`
}

type noteDoc struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

func docOfPreview(p *view.Preview) previewDoc {
	notes := make([]noteDoc, len(p.Notes))
	for i, note := range p.Notes {
		notes[i] = noteDoc{note.At.Time, note.Text}
	}
	return previewDoc{timesOf(p.Times), notes, p.Sentence, p.Chinese, p.Zone}
}
