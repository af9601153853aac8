package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Tasks that wait for others are blocked from their submission on, in batches of their own, of
// which nothing is in any node's memory. Who ends a task looks at who waits for it, as at
// everything that is waited for: see waiting.go. Once a task has begun, its holder is told what the
// others left.

// others finds out for whom the tasks of a call wait, and that those stand which are none of the
// call; nil where none waits. parent is the task whose children they are to be; zero = nobody's.
func (ss *submissions) others(
	ctx context.Context, tasks []task.Submission, parent task.ID, location string,
) ([][]limits.Other, error) {
	some := false
	for i := range tasks {
		some = some || len(tasks[i].After) > 0 || tasks[i].Ref != ""
	}
	if !some {
		return nil, nil
	}
	e := &task.InvalidError{}
	others := limits.Others(tasks, e, location)
	if err := e.Err(); err != nil {
		return nil, err
	}
	ids := standing(others)
	if len(ids) == 0 {
		return others, nil
	}
	gone, err := ss.gone(ctx, ids)
	if err != nil {
		return nil, err
	}
	above := map[task.ID]bool{}
	if parent != (task.ID{}) {
		if above, err = ss.above(ctx, parent); err != nil {
			return nil, err
		}
	}
	for i := range others {
		for k, o := range others[i] {
			wrong := func(format string, args ...any) {
				e.Add(fmt.Sprintf("%s[%d].after[%d]", location, i, k), format, args...)
			}
			switch {
			case o.Place >= 0 || len(e.Fields) > 100:
			case gone[o.ID]:
				wrong("there is no task %v: it was never there, or is deleted", o.ID)
			case above[o.ID]:
				wrong("task %v is above this one and may wait for it: children can't wait for it, "+
					"but a next stage of it may begin when they have ended", o.ID)
			}
		}
	}
	return others, e.Err()
}

// standing lists the tasks that are waited for and that are none of a call.
func standing(others [][]limits.Other) (ids []task.ID) {
	for _, list := range others {
		for _, o := range list {
			if o.Place < 0 {
				ids = append(ids, o.ID)
			}
		}
	}
	slices.SortFunc(ids, task.ID.Compare)
	return slices.Compact(ids)
}

// countOthers is how many are waited for, counted for each task that does.
func countOthers(others [][]limits.Other) (n int) {
	for _, list := range others {
		n += len(list)
	}
	return n
}

// stoodAtOnce is so many tasks as the store is asked about at a time.
const stoodAtOnce = 1000

// gone are those of some tasks that do not stand.
func (ss *submissions) gone(ctx context.Context, ids []task.ID) (map[task.ID]bool, error) {
	gone := map[task.ID]bool{}
	for part := range slices.Chunk(ids, stoodAtOnce) {
		stood, err := ss.store.Stand(ctx, part)
		if err != nil {
			ss.note(err)
			return nil, fmt.Errorf("read where tasks stand that are waited for: %w", err)
		}
		for i := range stood {
			if !stood[i].Found || stood[i].Kind == task.KindRemoved {
				gone[part[i]] = true
			}
		}
	}
	return gone, nil
}

// highest is how far up above looks for who may wait.
const highest = 100

// above are the tasks above a child of parent that may wait for it: parent, and whose child that is
// and so on, as far as those are not over.
func (ss *submissions) above(ctx context.Context, parent task.ID) (map[task.ID]bool, error) {
	above := map[task.ID]bool{parent: true}
	up := parent
	for range highest {
		stood, err := ss.store.Stand(ctx, []task.ID{up})
		if err != nil {
			ss.note(err)
			return nil, fmt.Errorf("read whose child task %s is: %w", up, err)
		}
		if up != parent && !stood[0].Final {
			above[up] = true
		}
		if up = stood[0].Parent; up == (task.ID{}) || !stood[0].Found {
			break
		}
	}
	return above, nil
}

// dependOn writes into the rows of a call's tasks, all of which have ids by now, for whom they
// wait.
func dependOn(
	batches []store.Batch, ids []task.ID, tasks []task.Submission, others [][]limits.Other,
) {
	if others == nil {
		return
	}
	rows := map[int64][]store.Task{}
	for i := range batches {
		rows[batches[i].ID] = batches[i].Tasks
	}
	for i, list := range others {
		if len(list) == 0 {
			continue
		}
		after := make([]store.Dependency, len(list))
		for k, o := range list {
			after[k] = store.Dependency{On: o.ID, Ended: tasks[i].If == task.IfEnded}
			if o.Place >= 0 {
				after[k].On, after[k].Ref = ids[o.Place], tasks[o.Place].Ref
			}
		}
		batch := rows[ids[i].Batch]
		at, _ := slices.BinarySearchFunc(batch, ids[i].N, func(t store.Task, n int32) int {
			return int(t.N) - int(n)
		})
		batch[at].After = after
	}
}

// lookAt looks soon at addresses at which a submission left changes.
func (wl *waitLooks) lookAt(list []store.Address) {
	for _, a := range list {
		wl.changedAt(a)
	}
}

// priorsOf is what a task has waited for, as its hand-out tells it; large values are still to be
// read.
func priorsOf(list []store.Prior) []task.Prior {
	if len(list) == 0 {
		return nil
	}
	told := make([]task.Prior, len(list))
	for i := range list {
		p := &list[i]
		told[i] = task.Prior{
			ID: p.On, Ref: p.Ref, If: task.IfDone, State: p.State,
			Context: json.RawMessage(p.Context), Result: json.RawMessage(p.Result),
			LeftOut: p.LeftOut,
		}
		if p.Ended {
			told[i].If = task.IfEnded
		}
	}
	return told
}

// hasLarge tells whether some values of what was waited for are still to be read.
func hasLarge(list []task.Prior) bool {
	return slices.ContainsFunc(list, func(p task.Prior) bool {
		return isLarge(store.Value(p.Context)) || isLarge(store.Value(p.Result))
	})
}

// sizeOf is how many bytes the values are of what was waited for.
func sizeOf(list []task.Prior) (n int64) {
	for i := range list {
		n += int64(len(list[i].Context) + len(list[i].Result))
	}
	return n
}

// tellPriors completes what a task has waited for, in an answer that has so many bytes already,
// where there is room for it.
func (hs *handouts) tellPriors(
	ctx context.Context, list []task.Prior, size int64, room func(int64) bool,
) (fits bool, err error) {
	most := sizeOf(list)
	large := hasLarge(list)
	if large { // how large reading them tells
		most = limits.MaxPriors
	}
	if size > hs.conf.AnswerMax || !room(most) {
		return false, nil
	}
	if large {
		err = hs.readPriors(ctx, list)
		room(sizeOf(list) - most)
	}
	soundPriors(list)
	return true, err
}

// readPriors reads the large values of what a task has waited for, as many as fit into a hand-out
// beside the others. From the first that does not fit on they are left out, unread: how large one
// is only reading it tells.
func (hs *handouts) readPriors(ctx context.Context, list []task.Prior) error {
	left := int64(limits.MaxPriors)
	for i := range list {
		for _, v := range [...]json.RawMessage{list[i].Context, list[i].Result} {
			if !isLarge(store.Value(v)) {
				left -= int64(len(v))
			}
		}
	}
	for i := range list {
		p := &list[i]
		for _, v := range [...]*json.RawMessage{&p.Context, &p.Result} {
			if !isLarge(store.Value(*v)) {
				continue
			}
			if left > 0 {
				text, err := hs.store.Value(ctx, store.Value(*v))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("read what task %s left: %w", p.ID, err)
				}
				if left -= int64(len(text)); err == nil && left >= 0 {
					*v = text
					continue
				}
			}
			p.LeftOut = true
		}
		if p.LeftOut {
			p.Context, p.Result = nil, nil
		}
	}
	return nil
}

// soundPriors leaves out values that can't stand in an answer: the store may hold some that are no
// JSON, from before every way in was checked.
func soundPriors(list []task.Prior) {
	for i := range list {
		p := &list[i]
		for _, v := range [...]*json.RawMessage{&p.Context, &p.Result} {
			if len(*v) > 0 && wire.CheckValue(*v) != "" {
				p.Context, p.Result, p.LeftOut = nil, nil, true
			}
		}
	}
}
