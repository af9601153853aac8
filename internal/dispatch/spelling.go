package dispatch

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/task"
)

// Names are stored and compared in one form. Workers link no tables of Unicode, and look for the
// handlers of what they are given by the names that they asked by, so they are answered in their
// own spelling.

// canonicalQueues is a submission with the queues in their one form; the caller's stays as it is.
func canonicalQueues(tasks []task.Submission) []task.Submission {
	before, copied := "", false
	for i := range tasks {
		given := tasks[i].Queue
		if given == before { // most submissions are to one queue: they cost one look
			continue
		}
		same := names.Canonical(given)
		if same == given {
			before = given
			continue
		}
		if !copied {
			tasks, copied = slices.Clone(tasks), true
		}
		tasks[i].Queue = same
	}
	return tasks
}

// readHold brings the names of a hold into their one form.
func readHold(r task.HoldRequest) (task.HoldRequest, names.Spelling) {
	var own names.Spelling
	r.Worker = names.Canonical(r.Worker)
	r.Queues = readNames(&own, r.Queues)
	return r, own
}

// readNames is a list in canonical form; the caller's stays as it is.
func readNames(own *names.Spelling, list []string) []string {
	if same := names.All(list); len(list) == 0 || &same[0] == &list[0] {
		return list
	}
	list = slices.Clone(list)
	own.ReadAll(list)
	return list
}

// spelled is a worker's beat with the names of its groups and jobs in their one form, answered by
// answer, and its orders in the worker's spelling.
func spelled(
	ctx context.Context, b task.Beat,
	answer func(context.Context, task.Beat) (task.BeatAnswer, error),
) (task.BeatAnswer, error) {
	var groups, jobs names.Spelling
	b.Worker = names.Canonical(b.Worker)
	b.Groups, b.Queues = readNames(&groups, b.Groups), names.All(b.Queues)
	own := b.Jobs
	for i := range own {
		group, job := groups.Read(own[i].Group), jobs.Read(own[i].Job)
		if group == own[i].Group && job == own[i].Job {
			continue
		}
		if &b.Jobs[0] == &own[0] {
			b.Jobs = slices.Clone(own)
		}
		b.Jobs[i].Group, b.Jobs[i].Job = group, job
	}
	a, err := answer(ctx, b)
	if len(groups)+len(jobs) == 0 {
		return a, err
	}
	// what is answered may be others' as well
	a.Jobs.Add, a.Jobs.End = slices.Clone(a.Jobs.Add), slices.Clone(a.Jobs.End)
	for i := range a.Jobs.Add {
		add := &a.Jobs.Add[i]
		add.Group, add.Job = groups.Write(add.Group), jobs.Write(add.Job)
	}
	for i := range a.Jobs.End {
		end := &a.Jobs.End[i]
		end.Group, end.Job = groups.Write(end.Group), jobs.Write(end.Job)
	}
	return a, err
}
