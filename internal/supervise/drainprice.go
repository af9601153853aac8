package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// DrainPrice is what a drain of a worker does to the groups that it serves, when all that stands in
// said holds, too: what operators said of workers, this one left aside. It is nothing when the
// worker serves no group, or nobody knows it.
func (v *Views) DrainPrice(
	ctx context.Context, worker string, what store.Drain, said map[string]store.Drain,
) (store.GroupsPrice, error) {
	if err := v.cache.Look(ctx); err != nil {
		return store.GroupsPrice{}, err
	}
	seat := v.cache.seat(worker)
	if seat == nil || seat.State != store.SeatTaken {
		return store.GroupsPrice{}, nil
	}
	price := store.GroupsPrice{Load: seat.Used}
	if what.Shed >= seat.Capacity {
		what.Shed = 0
	}
	var parts []string
	for _, group := range seat.Groups {
		text, err := v.groupPrice(ctx, group, worker, what, said, &price)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return store.GroupsPrice{}, err
		}
		parts = append(parts, text)
	}
	price.Text = strings.Join(parts, " ")
	return price, nil
}

// groupPrice adds what a drain does to one group, and says so in a sentence.
func (v *Views) groupPrice(
	ctx context.Context, group, worker string, what store.Drain, said map[string]store.Drain,
	price *store.GroupsPrice,
) (string, error) {
	s, err := v.sketch(ctx, group)
	if err != nil {
		return "", err
	}
	if s.group.Paused {
		return fmt.Sprintf("Group %s: it is paused, so nothing moves until it is resumed.", group), nil
	}
	load := map[string]task.Units{}
	for _, j := range s.jobs {
		load[j.Name] = j.Load
	}
	planned, err := v.Plan(ctx, group, v.drains(group, worker, what, said))
	if err != nil {
		return "", err
	}
	list, err := v.Placements(ctx, store.PlacementQuery{Group: group, Worker: worker})
	if err != nil {
		return "", err
	}
	has, leave, stay := 0, 0, 0
	for i := range list {
		if lives(list[i].State) && list[i].State != task.JobMoving {
			has++
		}
	}
	for i := range planned.Stop {
		if at := &planned.Stop[i]; at.Worker == worker {
			leave++
			price.Load -= load[at.Job]
		}
	}
	for i := range planned.Stay {
		if at := &planned.Stay[i]; at.Worker == worker {
			stay++
			price.Lacks += load[at.Job]
		}
	}
	price.Moves += planned.Moves
	price.Jobs += leave
	price.Rounds = max(price.Rounds, planned.Rounds)
	if price.Stays += stay; stay > 0 {
		price.Breaks = append(price.Breaks, group)
	}
	return drainText(group, has, leave, stay, &planned), nil
}

func drainText(group string, has, leave, stay int, planned *store.Planned) string {
	text := fmt.Sprintf("Group %s: %s to other workers in %s", group,
		count(leave, "replica moves", "replicas move"), count(planned.Rounds, "round", "rounds"))
	if has == 0 {
		text = fmt.Sprintf("Group %s: it runs nothing there", group)
	}
	if stay > 0 {
		text += fmt.Sprintf(", and %s, because there is no other place",
			count(stay, "stays", "stay"))
	}
	return text + "; then " + planned.Budget.Text + "."
}

// drains is a drain as a change of one group that is thought through, with those of other workers
// that the group may not have heard of yet.
func (v *Views) drains(
	group, worker string, what store.Drain, said map[string]store.Drain,
) (change store.WhatIf) {
	add := func(name string, d store.Drain) {
		if seat := v.cache.seat(name); seat == nil || seat.State != store.SeatTaken ||
			!slices.Contains(seat.Groups, group) {
			return
		}
		if d.Whole() {
			change.Drain = append(change.Drain, name)
		} else {
			change.Shed = append(change.Shed, store.ToShed{Worker: name, Shed: d.Shed})
		}
	}
	for name, d := range said {
		if name != worker {
			add(name, d)
		}
	}
	add(worker, what)
	return change
}
