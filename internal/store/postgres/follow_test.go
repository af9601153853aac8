//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// followers makes schedules that follow others, as name=parents.
func (c *client) followers(list ...string) (made []store.Schedule) {
	c.Helper()
	change := store.ScheduleChange{}
	for _, text := range list {
		name, after, _ := strings.Cut(text, "=")
		p := store.SchedulePut{Schedule: limits.DefaultSchedule(name), Since: 1, Then: store.Never}
		p.Queue, p.After = "q", after
		change.Puts = append(change.Puts, p)
	}
	made, err := c.ChangeSchedules(c.Context(), change)
	if err != nil {
		c.Fatal(err)
	}
	return made
}

// after is a put by which a schedule follows others.
func after(is store.Schedule, parents string) store.SchedulePut {
	p := store.SchedulePut{
		Schedule: is.Schedule, Version: is.Version, Next: is.Next, Since: is.Since,
		Then: store.Never,
	}
	p.After = parents
	return p
}

// Another node's half of a circle is committed while this one waits: what it looked at before that
// does not count.
func TestHalfOfACircleThatWaitsForTheOtherHalfIsRefused(t *testing.T) {
	o := meanwhile(t)
	list := o.followers("a", "b", "c=b")
	o.do("SELECT FROM rota.schedule_head FOR UPDATE") // a change that lets a follow c
	o.do("UPDATE rota.schedule SET follows = 'c,none', version = version + 1 WHERE name = 'a'")
	got := make(chan error, 1)
	go func() {
		_, err := o.ChangeSchedules(t.Context(), store.ScheduleChange{
			Puts: []store.SchedulePut{after(list[1], "a")},
		})
		got <- err
	}()
	o.awaitLock(t)
	o.commits()
	err := <-got
	if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "b after a after c after b") {
		t.Errorf("got %v, want a conflict that names the circle", err)
	}
}

// A follower of several is put while one of them is fired: it waits, and what is fired then is
// watched, or was fired before there was a follower.
func TestFollowerOfSeveralThatIsPutWhileOneIsFired(t *testing.T) {
	o := meanwhile(t)
	f := o.firing(o.minutely(1))
	leader := f.Parts[0].Schedule
	o.followers("x")
	o.do("SELECT FROM rota.schedule_head FOR UPDATE") // a change that puts a follower
	o.do("SELECT FROM rota.schedule WHERE name = $1 FOR SHARE", leader)
	o.do("UPDATE rota.schedule SET follows = 'none,' || $1 WHERE name = 'x'", leader)
	got := make(chan store.Fired, 1)
	go func() { got <- must(o.Fire(t.Context(), f))(t) }()
	o.awaitLock(t)
	o.commits()
	if part := (<-got).Parts[0]; part.Refused != "" || !part.Fires[0].Watch {
		t.Errorf("got %+v: it has a follower by then", part)
	}
}

// Who waits for another's turn sees that it is taken.
func TestTurnThatWaitsForAnotherIsRefused(t *testing.T) {
	o := meanwhile(t)
	is := o.followers("a", "b", "c=a,b")[2]
	now := o.today().UnixMicro()
	o.do("SELECT FROM rota.schedule WHERE name = 'c' FOR NO KEY UPDATE")
	o.do(`INSERT INTO rota.fire (schedule, at, time, count, room, seq, tries, ended, watch, origin,
outcome, node, parents)
SELECT id, $1, $1, 1, 0, -1, 0, 0, false, 'after', 'skipped', 'b', '[{"s":"a","at":7}]'
FROM rota.schedule WHERE name = 'c'`, now-5)
	got := make(chan store.Fired, 1)
	go func() {
		got <- must(o.Fire(t.Context(), store.Firing{Node: "a", Parts: []store.FirePart{{
			Schedule: "c", Version: is.Version, Tail: -1, Fires: []store.Fire{{
				At: now - 4, Origin: task.OriginAfter, Outcome: task.FireSkipped,
				Parents: []store.FireKey{{Schedule: "a", At: 7}, {Schedule: "b", At: now - 4}},
			}},
		}}}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if part := (<-got).Parts[0]; part.Refused != store.FireMoved {
		t.Errorf("got %+v: another node had taken what this turn takes", part)
	}
}

// Many nodes make halves of circles all at once: in the end nobody follows itself, and whoever was
// refused was told of a circle.
func TestManyNodesMakeNoCircle(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	const schedules = 6
	var names []string
	for i := range schedules {
		names = append(names, fmt.Sprint("s", i))
	}
	c.followers(names...)
	var crowd sync.WaitGroup
	for node := range 4 {
		crowd.Go(func() {
			for i := range 30 {
				name := names[(node*7+i*5)%schedules]
				list := must(c.Schedules(t.Context(), store.ScheduleQuery{
					Names: []string{name},
				}))(t)
				a, b := names[(node+i)%schedules], names[(node*3+i*2+1)%schedules]
				if a == b || a == name || b == name {
					continue
				}
				put := after(list[0], a+","+b)
				put.Since++
				_, err := c.ChangeSchedules(t.Context(), store.ScheduleChange{
					Puts: []store.SchedulePut{put},
				})
				if err != nil && !errors.Is(err, store.ErrConflict) &&
					!errors.Is(err, store.ErrBusy) {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
	known := map[string][]string{}
	for _, s := range must(c.Schedules(t.Context(), store.ScheduleQuery{}))(t) {
		known[s.Name] = s.Parents()
	}
	var puts []store.SchedulePut
	for name, parents := range known {
		p := store.SchedulePut{Schedule: limits.DefaultSchedule(name)}
		p.After = strings.Join(parents, ",")
		puts = append(puts, p)
	}
	if circle := store.Circle(puts, nil); circle != nil {
		t.Errorf("%s", store.CircleText(circle))
	}
}
