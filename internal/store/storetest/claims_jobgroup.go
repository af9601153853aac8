package storetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// groupClaims is what holds for groups, their jobs and the jobs' logs.
func groupClaims() []claim {
	return []claim{
		{"AGroupIsAsItWasPutLast", func(s *scene) {
			since := s.clock.Micros()
			s.want("created",
				[]bool{s.putGroup(limits.DefaultGroup("b")), s.putGroup(limits.DefaultGroup("a"))},
				[]bool{true, true})
			s.clock.Advance(time.Hour)
			a := task.Group{
				Name: "a", Replicas: 3, Selector: map[string]string{"ssd": "yes", "☃": ""},
				Spread: task.SpreadWorker, Paused: true,
				Source: task.Source{
					Kind: task.SourceCommand, Path: "/p", URL: "http://u",
					Command: []string{"x", "", "y z"}, Every: time.Minute + 1,
				},
				Policy:  task.JobPolicy{Moves: 1, New: 2, Penalty: 3, Warmup: 4},
				Silence: 5 * time.Second, JobSilence: 6 * time.Second,
				Title: "日志 \"☃\"", Owner: "Группа логов",
			}
			s.want("created again", s.putGroup(a), false)
			s.want("groups", s.groups(), []store.Group{
				{Group: a, Version: 2, Since: since},
				{Group: limits.DefaultGroup("b"), Version: 1, Since: since},
			})
		}},
		{"AskingMakesRefreshAndRebalanceGrow", func(s *scene) {
			s.group("g", 1)
			for _, ask := range [][2]bool{{true, false}, {false, true}, {true, true},
				{false, false}} {
				s.ok(s.AskGroup(s.ctx, "g", ask[0], ask[1]))
			}
			g := s.groups()[0]
			s.want("refresh, rebalance, version", []int64{g.Refresh, g.Rebalance, g.Version},
				[]int64{2, 2, 4})
		}},
		{"WhatIsSaidOfAnUnknownGroupIsNotFound", func(s *scene) {
			_, changed := s.ChangeJobs(s.ctx, store.JobChange{Group: "g"})
			_, read := s.Changes(s.ctx, "g", 0)
			_, assigned := s.Assign(s.ctx, store.Assign{Group: "g"})
			_, logged := s.JobLog(s.ctx, "g", "j", 0, 1)
			for what, err := range map[string]error{
				"delete": s.DeleteGroup(s.ctx, "g", true),
				"ask":    s.AskGroup(s.ctx, "g", true, true), "change jobs": changed,
				"changes": read,
				"assign":  assigned, "append": s.AppendJobLog(s.ctx, "g", "j", nil), "log": logged,
				"note source": s.NoteSource(s.ctx, "g", store.Lease{}, store.SourceRead{}),
			} {
				s.wantErr(what, err, store.ErrNotFound)
			}
		}},
		{"JobsAreAddedReplacedAndRemoved", func(s *scene) {
			s.group("g", 1)
			other := s.change(store.JobChange{Group: "g", Put: []task.Job{{Name: "x", Load: 5}}})
			s.want("first", other, store.JobsChanged{Added: 1, Version: 2})
			for i, c := range []struct {
				change               store.JobChange
				added, removed, kept int
				left                 string
			}{
				{store.JobChange{Put: loads("a", 1, "b", 2)}, 2, 0, 0, "a:1@3 b:2@3 x:5@2"},
				{store.JobChange{Put: loads("b", 2, "a", 7, "c", 0)}, 1, 0, 2,
					"a:7@4 b:2@3 c:0@4 x:5@2"},
				{store.JobChange{Remove: []string{"b", "none"}}, 0, 1, 0, "a:7@4 c:0@4 x:5@2"},
				{store.JobChange{Put: loads("b", 2)}, 1, 0, 0, "a:7@4 b:2@6 c:0@4 x:5@2"},
				{store.JobChange{Put: loads("b", 2)}, 0, 0, 1, "a:7@4 b:2@6 c:0@4 x:5@2"},
				{store.JobChange{Whole: true, Put: loads("c", 0, "d", 1)}, 1, 3, 1, "c:0@4 d:1@7"},
				{store.JobChange{Put: loads("d", 2), Remove: []string{"c"}}, 0, 1, 1, "d:2@8"},
				{store.JobChange{Whole: true}, 0, 1, 0, ""},
			} {
				c.change.Group = "g"
				got := s.change(c.change)
				s.want(fmt.Sprintf("change %d", i+1), []int{got.Added, got.Removed, got.Kept},
					[]int{c.added, c.removed, c.kept})
				s.want(fmt.Sprintf("jobs after change %d", i+1), s.jobs("g"), c.left)
				s.want("version", got.Version, s.groups()[0].Version)
			}
		}},
		{"ListsThatMeetComeOneAfterTheOther", func(s *scene) { s.showLists(6, 8) }},
		{"SpecsComeBackByteForByte", func(s *scene) {
			s.group("g", 1)
			c := store.JobChange{Group: "g", Put: []task.Job{{Name: "none"}}}
			longest := caller.Text{What: "the longest", JSON: caller.JSON(limits.MaxSpec)}
			for i, t := range append(caller.Awkward(), longest) {
				c.Put = append(c.Put, task.Job{Name: fmt.Sprint(i), Spec: json.RawMessage(t.JSON)})
			}
			for range 2 {
				s.change(c)
				got := s.changes("g", 0)
				slices.SortFunc(got.Jobs, func(a, b store.GroupJob) int {
					return cmp.Compare(a.Name, b.Name)
				})
				slices.SortFunc(c.Put, func(a, b task.Job) int {
					return cmp.Compare(a.Name, b.Name)
				})
				for i, j := range got.Jobs {
					s.wantSame("spec of "+j.Name, j.Spec, string(c.Put[i].Spec))
					s.want("no spec", j.Spec == nil, j.Name == "none")
					s.want("version", j.Version, int64(2))
				}
			}
			s.change(store.JobChange{
				Group: "g", Put: []task.Job{{Name: "none", Spec: json.RawMessage("null")}},
			})
			s.want("a spec instead of none is a change", s.changes("g", 2).Jobs[0].Version,
				int64(3))
		}},
		{"AJobChangeWithoutItsClaimChangesNothing", func(s *scene) {
			s.group("g", 1)
			for what, claim := range s.badClaims("group/g") {
				_, err := s.ChangeJobs(s.ctx, store.JobChange{
					Group: "g", Put: loads("a", 1), Claim: claim, Read: &store.SourceRead{Time: 1},
				})
				s.wantErr(what, err, store.ErrConflict)
				s.wantErr(what, s.NoteSource(s.ctx, "g", claim, store.SourceRead{Time: 1}),
					store.ErrConflict)
			}
			g := s.groups()[0]
			s.want("version, jobs, read", []any{g.Version, g.Jobs, g.Read},
				[]any{int64(1), int64(0), store.SourceRead{}})
			read := store.SourceRead{Time: 5, Good: 4, Refresh: 3, Hash: "h", Error: "it ☃"}
			claim := s.claim("group/g", "a")
			s.change(store.JobChange{Group: "g", Put: loads("a", 1), Claim: claim, Read: &read})
			g = s.groups()[0]
			s.want("version, jobs, read", []any{g.Version, g.Jobs, g.Read},
				[]any{int64(2), int64(1), read})
			read.Error = ""
			s.ok(s.NoteSource(s.ctx, "g", claim, read))
			s.group("g", 2)
			g = s.groups()[0]
			s.want("after another configuration", []any{g.Version, g.Read}, []any{int64(4), read})
		}},
		{"AListThatComesFromElsewhereIsNotChangedByHand", func(s *scene) {
			g := limits.DefaultGroup("g")
			for _, kind := range []string{task.SourceFile, task.SourceURL, task.SourceCommand,
				task.SourceAPI} {
				g.Source.Kind = kind
				s.putGroup(g)
				for _, c := range []store.JobChange{{Put: loads(kind, 1)},
					{Remove: []string{"file"}}, {Whole: true}} {
					c.Group = "g"
					if _, err := s.ChangeJobs(s.ctx, c); kind == task.SourceAPI {
						s.ok(err)
					} else {
						s.wantErr(kind, err, store.ErrConflict)
					}
				}
				s.change(store.JobChange{
					Group: "g", Put: loads(kind, 1), Claim: s.claim("group/g", "a"),
				})
			}
			s.want("jobs", len(s.changes("g", 0).Jobs), 1)
		}},
		{"AGroupWithJobsIsDeletedByForce", func(s *scene) {
			h := s.jobScene()
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 2000}}})
			s.wantErr("delete", s.DeleteGroup(s.ctx, "g", false), store.ErrConflict)
			s.want("used", s.seat("w1").Used, task.Units(2000))
			s.ok(s.DeleteGroup(s.ctx, "g", true))
			s.want("groups", len(s.groups()), 0)
			s.want("used", s.seat("w1").Used, task.Units(0))
			_, err := s.Changes(s.ctx, "g", 0)
			s.wantErr("changes", err, store.ErrNotFound)
			seen := store.Observation{
				Group: "g", Job: "a", Worker: "w1", Token: 3, State: task.JobRunning,
			}
			got := s.observe(store.Observed{
				Holder: h, States: []store.Observation{seen}, Adopt: []store.Observation{seen},
			})
			s.want("refused", got.Refused, []store.Observation{seen})
			s.group("empty", 1)
			known := s.board(0).Seats.Version
			s.ok(s.DeleteGroup(s.ctx, "empty", false))
			s.want("the board has news", s.board(known).Seats.Version > known, true)
		}},
		{"AGroupThatComesAgainIsAnother", func(s *scene) {
			s.jobScene()
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1"}}})
			s.ok(s.AppendJobLog(s.ctx, "g", "a", caller.LogLines(s.clock.Now(), 0, 1, 1)))
			before := s.groups()[0].Version
			s.ok(s.DeleteGroup(s.ctx, "g", true))
			s.group("g", 1)
			got := s.changes("g", before)
			s.want("whole, jobs, assignments",
				[]any{got.Whole, len(got.Jobs), len(got.Assignments)}, []any{true, 0, 0})
			s.want("version", got.Version, before+1)
			s.change(store.JobChange{Group: "g", Put: loads("a", 1)})
			page, err := s.JobLog(s.ctx, "g", "a", 0, 9)
			s.ok(err)
			s.want("log", page, store.LogPage{})
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1"}}})
			if a := s.placed("a", "w1"); a.Token <= before {
				s.fail("token %d, the group before had come to %d", a.Token, before)
			}
		}},
		{"AJobsLogIsReadInPagesAndLosesItsMiddle", func(s *scene) {
			s.jobScene()
			const n, width = 3000, 1000
			for i := 0; i < n; i += 100 {
				s.ok(s.AppendJobLog(s.ctx, "g", "a", caller.LogLines(s.clock.Now(), i, 100, width)))
			}
			s.ok(s.AppendJobLog(s.ctx, "g", "b", caller.LogLines(s.clock.Now(), 7, 2, 1)))
			got, bytes := s.readJobLog("a"), 0
			for _, l := range got {
				bytes += len(l.Text)
			}
			if bytes > 1<<20 || bytes < 1<<19 {
				s.fail("%d bytes are kept of %d", bytes, n*width)
			}
			want := caller.LogLines(s.clock.Now(), 0, n, width)
			s.want("the first lines", got[:100], want[:100])
			s.want("the newest lines", got[len(got)-100:], want[n-100:])
			s.want("lines of another job", s.readJobLog("b"),
				caller.LogLines(s.clock.Now(), 7, 2, 1))
			s.wantErr("append to no job's log", s.AppendJobLog(s.ctx, "g", "none", nil),
				store.ErrNotFound)
		}},
		{"ARemovedJobKeepsItsLogForAWhile", func(s *scene) {
			s.jobScene()
			lines := caller.LogLines(s.clock.Now(), 0, 2, 9)
			s.ok(s.AppendJobLog(s.ctx, "g", "a", lines[:1]))
			s.change(store.JobChange{Group: "g", Remove: []string{"a"}})
			s.ok(s.AppendJobLog(s.ctx, "g", "a", lines[1:]))
			s.want("log", s.readJobLog("a"), lines)
			s.clock.Advance(store.EndedKept)
			s.prune()
			_, err := s.JobLog(s.ctx, "g", "a", 0, 9)
			s.wantErr("log", err, store.ErrNotFound)
			s.change(store.JobChange{Group: "g", Put: loads("a", 1)})
			s.want("log of a job of the same name", len(s.readJobLog("a")), 0)
		}},
	}
}

// Verbs of the scenes about jobs. A scene's group is g unless it says otherwise.

func (s *scene) putGroup(g task.Group) bool {
	changed, err := s.ChangeGroup(s.ctx, g.Name, store.Whole(g))
	s.ok(err)
	return changed.Created
}

// group makes or changes a group by its number of replicas.
func (s *scene) group(name string, replicas int) {
	g := limits.DefaultGroup(name)
	g.Replicas = replicas
	s.putGroup(g)
}

func (s *scene) groups() []store.Group {
	list, err := s.Groups(s.ctx)
	s.ok(err)
	return list
}

func (s *scene) change(c store.JobChange) store.JobsChanged {
	got, err := s.ChangeJobs(s.ctx, c)
	s.ok(err)
	return got
}

func (s *scene) changes(group string, after int64) store.Changes {
	c, err := s.Changes(s.ctx, group, after)
	s.ok(err)
	return c
}

// jobs tells of a group's jobs: name, load and version.
func (s *scene) jobs(group string) (told string) {
	c := s.changes(group, 0)
	slices.SortFunc(c.Jobs, func(a, b store.GroupJob) int { return cmp.Compare(a.Name, b.Name) })
	for i, j := range c.Jobs {
		if i > 0 {
			told += " "
		}
		told += fmt.Sprintf("%s:%d@%d", j.Name, j.Load, j.Version)
	}
	s.want("jobs that are counted", s.groups()[0].Jobs, int64(len(c.Jobs)))
	return told
}

// loads makes jobs of names and loads.
func loads(pairs ...any) (list []task.Job) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, task.Job{Name: pairs[i].(string), Load: task.Units(pairs[i+1].(int))})
	}
	return list
}

// showLists lets many make their list the whole one, at once: one of them is it in the end.
func (s *scene) showLists(writers, rounds int) {
	s.group("g", 1)
	errs := make([]error, writers)
	var crowd sync.WaitGroup
	for w := range writers {
		crowd.Go(func() {
			for range rounds {
				_, err := s.ChangeJobs(s.ctx, store.JobChange{
					Group: "g", Whole: true, Put: loads("shared", w, fmt.Sprint("own", w), w),
				})
				errs[w] = errors.Join(errs[w], err)
			}
		})
	}
	crowd.Wait()
	s.ok(errors.Join(errs...))
	var lists, have []string
	for w := range writers {
		lists = append(lists, fmt.Sprintf("own%d:%d shared:%d", w, w, w))
	}
	for _, j := range s.changes("g", 0).Jobs {
		have = append(have, fmt.Sprintf("%s:%d", j.Name, j.Load))
	}
	slices.Sort(have)
	if got := strings.Join(have, " "); !slices.Contains(lists, got) || s.groups()[0].Jobs != 2 {
		s.fail("there are %d jobs, %s: nobody's list", s.groups()[0].Jobs, got)
	}
}

// claim is a claim that stands.
func (s *scene) claim(name, holder string) store.Lease {
	l, err := s.Acquire(s.ctx, name, holder, time.Hour, nil)
	s.ok(err)
	return l
}

// badClaims are claims that do not stand.
func (s *scene) badClaims(name string) map[string]store.Lease {
	stale := s.claim(name, "a")
	s.ok(s.End(s.ctx, name, stale.Token, false))
	good := s.claim(name, "a")
	other, older := good, good
	other.Holder, older.Token = "b", good.Token-1
	expired, err := s.Acquire(s.ctx, "group/x", "a", time.Second, nil)
	s.ok(err)
	s.clock.Advance(time.Second)
	return map[string]store.Lease{
		"a claim that ended": stale, "another's claim": other, "a claim of another token": older,
		"an expired claim":       expired,
		"a claim that never was": {Name: "group/y", Holder: "a", Token: 1},
	}
}

func (s *scene) readJobLog(job string) (lines []task.LogLine) {
	for from := int64(0); ; {
		page, err := s.JobLog(s.ctx, "g", job, from, 700)
		s.ok(err)
		if len(page.Lines) == 0 {
			return lines
		}
		if len(page.Lines) > 700 || page.Next <= from {
			s.fail("log page from %d: %d lines, next %d", from, len(page.Lines), page.Next)
		}
		lines, from = append(lines, page.Lines...), page.Next
	}
}
