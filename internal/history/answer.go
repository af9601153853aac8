package history

import (
	"errors"
	"time"
)

// Question asks what a series did, from a time to another, in periods of a length. Times are
// microseconds since 1970, and whole multiples of the step; see NewQuestion.
type Question struct {
	Series
	From, To int64
	Step     time.Duration
	Now      int64 // when it was asked: nothing is known of later; 0 = not said
}

// MostPeriods is how many periods one answer has at most.
const MostPeriods = 1500

// Errors of NewQuestion.
var (
	ErrStep    = errors.New("the step must be whole minutes, and at most 31 days")
	ErrRange   = errors.New("from must be before to")
	ErrPeriods = errors.New("that is more than 1,500 periods: ask for a longer step or a shorter time")
	ErrMinutes = errors.New("minutes are not kept for so long: the step must be whole hours")
	ErrKept    = errors.New("that is before what is kept: hours are, for 90 days")
	ErrSeries  = errors.New("a worker's history is not told apart by queues and stages, and a stage is one of a queue")
)

// NewQuestion checks a question. The periods begin at whole multiples of the step since 1970, in
// UTC; the first is the one that from lies in, and the last the one before to, or that it lies in.
func NewQuestion(
	s Series, from, to time.Time, step time.Duration, kept Kept, now time.Time,
) (Question, error) {
	q := Question{Series: s, Step: step, Now: now.UnixMicro()}
	if s.Worker != "" && s.Queue != "" || s.Stage != "" && s.Queue == "" {
		return q, ErrSeries
	}
	if step < time.Minute || step%time.Minute != 0 || step > 31*24*time.Hour {
		return q, ErrStep
	}
	if !from.Before(to) {
		return q, ErrRange
	}
	width := step.Microseconds()
	q.From = from.UnixMicro() / width * width
	q.To = (to.UnixMicro() + width - 1) / width * width
	if (q.To-q.From)/width > MostPeriods {
		return q, ErrPeriods
	}
	if q.Minutes() == Minute && now.Sub(from) > kept.Minutes+step {
		return q, ErrMinutes
	}
	if now.Sub(from) > kept.Hours+step {
		return q, ErrKept
	}
	return q, nil
}

// Minutes is of which rows the answer is made: as a step of whole hours begins at a whole hour,
// rows of hours say all.
func (q *Question) Minutes() int {
	if q.Step%time.Hour == 0 {
		return Hour
	}
	return Minute
}

// Rows are the rows that the answer is made of: those with At from the first up to before the last.
func (q *Question) Rows() (from, to int64) {
	width := time.Minute.Microseconds() * int64(q.Minutes())
	from, to = q.From/width, q.To/width
	if q.Now > 0 { // clocks differ
		to = min(to, (q.Now+time.Hour.Microseconds())/width+1)
	}
	return from, max(from, to)
}

// Period is what happened in a step from At on, in microseconds since 1970.
type Period struct {
	At int64
	Record
}

// Answer puts the rows and changes of a question together.
type Answer struct {
	q       Question
	periods []Period
}

// NewAnswer begins with all periods of the question empty.
func NewAnswer(q Question) *Answer {
	a := &Answer{q: q}
	for at := q.From; at < q.To; at += q.Step.Microseconds() {
		a.periods = append(a.periods, Period{At: at})
	}
	return a
}

// Row takes in a row of the history that is of the question's series.
func (a *Answer) Row(at int64, body []byte) error {
	r, err := Decode(body)
	if err == nil {
		a.add(at*int64(a.q.Minutes()), r)
	}
	return err
}

// Changes takes in what a transaction changed that is not in the rows yet.
func (a *Answer) Changes(body []byte) error {
	q := &a.q
	return decodeChanges(body, func(k cell, r *Record) {
		switch {
		case q.Worker != "" && q.Worker != k.Worker, q.Queue != "" && q.Queue != k.Queue,
			q.Stage != "" && q.Stage != k.Stage:
			return
		}
		a.add(k.minute, r)
	})
}

// add takes in what happened in the time from a minute on.
func (a *Answer) add(minute int64, r *Record) {
	at := minute * time.Minute.Microseconds()
	if at >= a.q.From && at < a.q.To {
		a.periods[(at-a.q.From)/a.q.Step.Microseconds()].Merge(r)
	}
}

// Periods are all periods of the question, the earliest first.
func (a *Answer) Periods() []Period { return a.periods }
