package model

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// happening is one thing that happened to one task, or how many tasks there were at a time. The
// model keeps all of them for ever, and counts them anew for every question.
type happening struct {
	at     int64
	series history.Series // all that is known: of a hand-out its queue, stage and worker
	count  func(*history.Record)
	sample bool
}

func (m *Model) happened(at int64, s history.Series, count func(*history.Record)) {
	m.history = append(m.history, happening{at: at, series: s, count: count})
}

// happenedStep notes what a reported step says.
func (m *Model) happenedStep(r *store.Report) {
	s := r.Step
	of := history.Series{Queue: r.Queue, Stage: s.Ran, Worker: s.Worker}
	final := s.Base == store.Final
	if s.Kind == task.KindExpired {
		m.happened(s.Finished, of, func(h *history.Record) { h.Expired++ })
		return
	}
	if s.Started == 0 {
		m.happened(s.Finished, of, func(h *history.Record) { h.Started++ })
	} else {
		m.happened(s.Started, of, func(h *history.Record) {
			h.Started++
			if r.Ready != 0 {
				h.Wait.Add(s.Started - r.Ready)
			}
		})
		if r.Ready != 0 {
			m.happened(s.Finished, of, func(h *history.Record) {
				h.Waited.Add(s.Started - r.Ready)
			})
		}
		if s.Kind != task.KindLost && s.Kind != task.KindRelease {
			m.happened(s.Finished, of, func(h *history.Record) {
				h.Run.Add(s.Finished - s.Started)
			})
		}
	}
	if s.Kind == task.KindLost {
		m.happened(s.Finished, of, func(h *history.Record) { h.Lost++ })
	}
	if s.Kind == task.KindSnooze {
		m.happened(s.Finished, of, func(h *history.Record) { h.Snoozed++ })
	}
	if s.Kind == task.KindRelease {
		m.happened(s.Finished, of, func(h *history.Record) { h.Released++ })
	}
	if s.Kind == task.KindTimeout {
		m.happened(s.Finished, of, func(h *history.Record) { h.TimedOut++ })
	}
	switch {
	case final && s.Kind == task.KindDone:
		m.happened(s.Finished, of, func(h *history.Record) { h.Done++ })
	case final && s.Kind == task.KindCancelled:
		m.happened(s.Finished, of, func(h *history.Record) { h.Cancelled++ })
	case final:
		m.happened(s.Finished, of, func(h *history.Record) { h.Dead++ })
	case s.Kind == task.KindNext:
		m.happened(s.Finished, of, func(h *history.Record) { h.Passed++ })
		next := history.Series{Queue: r.Queue, Stage: s.Stage}
		m.happened(s.Finished, next, func(h *history.Record) { h.Entered++ })
	case s.Kind != task.KindRelease:
		m.happened(s.Finished, of, func(h *history.Record) { h.Retried++ })
	}
}

// sampleHistory notes how many tasks there are. The lock is held.
func (m *Model) sampleHistory(now int64) {
	var all task.Counts
	for name := range m.queues {
		var q store.QueueCounts
		for _, f := range m.tasks {
			if f.batch.Queue == name {
				m.count(&q, f, now)
			}
		}
		all.Ready, all.Running = all.Ready+q.Counts.Ready, all.Running+q.Counts.Running
		m.sampled(now, name, q.Counts)
	}
	m.sampled(now, "", all)
	m.kept = now
}

func (m *Model) sampled(at int64, queue string, c task.Counts) {
	m.history = append(m.history, happening{
		at: at, series: history.Series{Queue: queue}, sample: true,
		count: func(h *history.Record) { h.Ready, h.Running = c.Ready+1, c.Running+1 },
	})
}

// History implements [contract.Views].
func (m *Model) History(
	ctx context.Context, q history.Question,
) (list []history.Period, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	kept := history.KeptMinutes
	if q.Minutes() == history.Hour {
		kept = history.KeptHours
	}
	gone := m.kept - kept.Microseconds()
	for at := q.From; at < q.To; at += q.Step.Microseconds() {
		p := history.Period{At: at}
		for _, h := range m.history {
			if h.at >= at && h.at < at+q.Step.Microseconds() && h.at >= gone && h.isOf(q.Series) {
				h.count(&p.Record)
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// isOf tells whether a series is told of it.
func (h *happening) isOf(s history.Series) bool {
	if h.sample {
		return h.series == s
	}
	return slices.Contains([]string{"", h.series.Queue}, s.Queue) &&
		slices.Contains([]string{"", h.series.Stage}, s.Stage) &&
		slices.Contains([]string{"", h.series.Worker}, s.Worker)
}
