package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// walk goes through the replicas that a query selects, by their keys, from behind q.After on. Why
// pending ones wait is left to be said.
func (s *sketch) walk(q store.PlacementQuery) iter.Seq[store.Placement] {
	return func(yield func(store.Placement) bool) {
		job := func(j *store.GroupJob, name string) int { return strings.Compare(j.Name, name) }
		from := max(q.After.Job, q.Job)
		j, _ := slices.BinarySearchFunc(s.jobs, from, job)
		i, _ := slices.BinarySearchFunc(s.rows, from, func(a *store.Assignment, name string) int {
			return strings.Compare(a.Job, name)
		})
		for j < len(s.jobs) || i < len(s.rows) {
			name, wanted := "", 0
			if j < len(s.jobs) && (i == len(s.rows) || s.jobs[j].Name <= s.rows[i].Job) {
				name, wanted = s.jobs[j].Name, s.group.Replicas
				j++
			} else {
				name = s.rows[i].Job // it is not listed any more
			}
			end := i
			for end < len(s.rows) && s.rows[end].Job == name {
				end++
			}
			if q.Job != "" && name != q.Job {
				return
			}
			for _, p := range s.replicas(name, wanted, s.rows[i:end]) {
				if selects(&q, &p) && !yield(p) {
					return
				}
			}
			i = end
		}
	}
}

func selects(q *store.PlacementQuery, p *store.Placement) bool {
	return (q.Worker == "" || p.Worker == q.Worker) && (q.State == "" || p.State == q.State) &&
		(q.After == store.PlacementKey{} || p.Key().Compare(q.After) > 0)
}

// replicas are those of one job: where they are, and those of the wanted ones that are nowhere.
func (s *sketch) replicas(job string, wanted int, assigned []*store.Assignment) []store.Placement {
	list := make([]store.Placement, 0, max(wanted, len(assigned)))
	placed := map[int]string{} // the worker at which a replica is to stay
	for _, a := range assigned {
		if _, gone := s.census.gone[a.Worker]; !gone && lives(a.State) &&
			(placed[a.Replica] == "" || a.State != task.JobMoving) {
			placed[a.Replica] = a.Worker
		}
		list = append(list, store.Placement{
			Job: job, Replica: a.Replica, Worker: a.Worker, State: a.State, Since: a.Since,
		})
	}
	for i := range list {
		list[i].Reason = s.reason(assigned[i], placed[list[i].Replica])
	}
	for n := range wanted {
		if placed[n] == "" {
			list = append(list, store.Placement{Job: job, Replica: n, State: task.JobPending})
		}
	}
	slices.SortFunc(list, func(a, b store.Placement) int { return a.Key().Compare(b.Key()) })
	return list
}

// reason is why an assignment is in its state, as far as there is something to say.
func (s *sketch) reason(a *store.Assignment, successor string) store.Reason {
	if why, gone := s.census.gone[a.Worker]; gone {
		return store.Reason{Code: "worker-dead", Text: "its worker is gone: " + why}
	}
	if s.census.hold[a.Worker] {
		return store.Reason{
			Code: "worker-orphan",
			Text: "the node of its worker died; the worker has a while to come to another one",
		}
	}
	switch a.State {
	case task.JobFailed:
		return failure(a)
	case task.JobMoving:
		text := fmt.Sprintf("it runs until its successor on %s does", successor)
		if a.Failed+s.group.Policy.Penalty.Microseconds() > s.now && a.Failed > 0 {
			text = cmp.Or(a.Note, "it returned") + "; " + text
		}
		return store.Reason{Code: "moving", Text: text}
	case task.JobEnding:
		return store.Reason{Code: "ending", Text: "its worker is to end it"}
	}
	return store.Reason{}
}

// failure is why an assignment has failed.
func failure(a *store.Assignment) store.Reason {
	if a.Quiet {
		return store.Reason{Code: "quiet", Text: a.Note}
	}
	return store.Reason{Code: "failed", Text: cmp.Or(a.Note, "it returned")}
}

// Explain says why a job is where it is or why it waits, and what would change that.
func (v *Views) Explain(ctx context.Context, group, job string) (store.Explanation, error) {
	s, err := v.sketch(ctx, group)
	if err != nil {
		return store.Explanation{}, err
	}
	policy, done, err := v.think.begin(ctx, &s.state, s.policy(s.group.Policy.Moves))
	if err != nil {
		return store.Explanation{}, err
	}
	defer done()
	e, err := place.Explain(divided(s.state), policy, job)
	if errors.Is(err, place.ErrNoJob) {
		err = fmt.Errorf("job %q of group %q: %w", job, group, store.ErrNotFound)
	}
	if err != nil {
		return store.Explanation{}, err
	}
	out := store.Explanation{Group: group, Job: job, Changes: e.Changes}
	for _, r := range e.Replicas {
		p := store.Placement{Job: job, Replica: r.Replica, Worker: r.Worker, State: task.JobPending}
		if a := s.find(job, r.Replica, r.Worker); a != nil {
			p.State, p.Since = a.State, a.Since
		}
		p.Reason = store.Reason{
			Code: string(cmp.Or(r.Reason.Code, place.Code(r.Doing))), Text: r.Text,
		}
		if a := s.find(job, r.Replica, r.Worker); a != nil && a.Quiet && a.State == task.JobFailed {
			why := failure(a)
			p.Reason = store.Reason{Code: why.Code, Text: why.Text + "; " + r.Text}
		}
		out.Replicas = append(out.Replicas, p)
	}
	seats := map[string]*store.Seat{}
	for _, seat := range s.seats {
		seats[seat.Worker] = seat
	}
	for _, c := range e.Candidates {
		out.Candidates = append(out.Candidates, store.Candidate{
			Worker: c.Worker, Fits: c.Verdict == "", Score: 1 - c.Share, Free: task.Units(c.Room),
			Capacity: seats[c.Worker].Capacity,
			Reason:   store.Reason{Code: string(c.Verdict), Text: c.Text},
		})
	}
	if s.group.Paused {
		out.Changes = append(out.Changes, "the end of the group's pause")
	}
	return out, nil
}
