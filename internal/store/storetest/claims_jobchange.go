package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// changeClaims is what holds for who reads on.
func changeClaims() []claim {
	return []claim{
		{"WhoReadsOnMissesNothing", func(s *scene) {
			h := s.jobScene()
			m := caller.Mirror{}
			for i, do := range []func(){
				func() {},
				func() {
					s.assign(store.Assign{
						Start: []store.Place{
							{Job: "a", Worker: "w1"}, {Job: "b", Worker: "w1"},
							{Job: "b", Replica: 1, Worker: "w2"},
						},
					})
				},
				func() {
					s.change(
						store.JobChange{
							Group: "g", Put: loads("a", 2, "d", 1), Remove: []string{"c"},
						},
					)
				},
				func() { s.says(h, "a", "w1", task.JobRunning) },
				func() { s.assign(store.Assign{End: []store.Place{s.site("b", "w1")}}) },
				func() { s.drop(h, s.site("b", "w2")) },
				func() { s.says(h, "b", "w1", store.Ended) },
				func() { s.group("g", 3) },
				func() {
					s.assign(
						store.Assign{Start: []store.Place{{Job: "b", Replica: 1, Worker: "w1"}}},
					)
				},
				func() { s.ok(s.DeleteSeat(s.ctx, "w1")) },
				func() { s.change(store.JobChange{Group: "g", Whole: true}) },
			} {
				do()
				c := s.changes("g", m.Version)
				s.want(fmt.Sprintf("whole at step %d", i), c.Whole, i == 0)
				m.Read(c)
				s.want(fmt.Sprintf("what a reader knows at step %d", i), m.Known(),
					s.mirror("g").Known())
				s.want("version", c.Version, s.groups()[0].Version)
				s.want("what is new to who knows everything",
					len(s.changes("g", c.Version).Jobs)+len(s.changes("g", c.Version).Assignments),
					0)
			}
		}},
		{"ReadersAmongWritersMissNothing", func(s *scene) { s.showReadOn(6, 15) }},
		{"WhoReadLessThanWasPurgedReadsEverything", func(s *scene) {
			h := s.jobScene()
			s.assign(store.Assign{
				Start: []store.Place{{Job: "a", Worker: "w1"}, {Job: "b", Worker: "w1"}},
			})
			before := s.groups()[0].Version
			s.drop(h, s.site("a", "w1"))
			s.change(store.JobChange{Group: "g", Remove: []string{"c"}})
			after := s.groups()[0].Version
			s.clock.Advance(store.EndedKept - time.Second)
			s.prune()
			c := s.changes("g", before)
			s.want("tombstones a second before", []any{c.Whole, len(c.Jobs), len(c.Assignments)},
				[]any{false, 1, 1})
			s.want("they say so", []any{c.Jobs[0].Gone, c.Assignments[0].State},
				[]any{true, store.Ended})
			s.clock.Advance(time.Second)
			s.prune()
			c = s.changes("g", before)
			s.want("after that", []any{c.Whole, len(c.Jobs), len(c.Assignments)}, []any{true, 2, 1})
			c = s.changes("g", after)
			s.want("who knew all of it", c, store.Changes{Now: s.clock.Micros(), Version: after})
		}},
		{"EverythingTellsWhatFailedNotLongAgo", func(s *scene) {
			h := s.jobScene()
			s.assign(store.Assign{
				Start: []store.Place{{Job: "a", Worker: "w1"}, {Job: "b", Worker: "w1"}},
			})
			s.says(h, "a", "w1", task.JobFailed)
			s.drop(h, s.site("a", "w1"), s.site("b", "w1"))
			s.clock.Advance(limits.MaxPenalty - time.Second)
			got := s.changes("g", 0).Assignments
			if len(got) != 1 || got[0].Job != "a" || got[0].State != store.Ended ||
				got[0].Failed == 0 {
				s.fail("whole, within the longest penalty: %+v", got)
			}
			s.clock.Advance(time.Second)
			s.want("whole, after it", s.changes("g", 0).Assignments, []store.Assignment(nil))
		}},
		{"WhoReadFurtherThanTheGroupIsReadsEverything", func(s *scene) {
			s.jobScene()
			c := s.changes("g", 99)
			s.want("whole, version, jobs", []any{c.Whole, c.Version, len(c.Jobs)},
				[]any{true, int64(2), 3})
		}},
	}
}

// mirror reads a group from the beginning.
func (s *scene) mirror(group string) *caller.Mirror {
	m := &caller.Mirror{}
	m.Read(s.changes(group, 0))
	return m
}

// showReadOn lets many write at once, and one read on meanwhile.
func (s *scene) showReadOn(writers, writes int) {
	h := s.jobScene()
	claim := s.claim("group/g", "a")
	errs := make(chan error, writers)
	var crowd sync.WaitGroup
	for w := range writers {
		crowd.Go(func() {
			for i := range writes {
				if err := s.jobRound(
					h, claim, fmt.Sprintf("%d.%d", w, i), fmt.Sprintf("%d.%d", w, i-1),
				); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		crowd.Wait()
	}()
	m := caller.Mirror{}
	for last := false; ; {
		c, err := s.Changes(s.ctx, "g", m.Version)
		if err != nil {
			s.fail("%v", err)
		}
		if c.Version < m.Version {
			s.fail("version %d after %d", c.Version, m.Version)
		}
		if m.Read(c); last {
			break
		}
		select {
		case <-written:
			last = true // what there is now is all that there will be
		default:
		}
	}
	close(errs)
	for err := range errs {
		s.fail("%v", err)
	}
	s.want("what the reader knows", m.Known(), s.mirror("g").Known())
}

// jobRound adds a job that begins to run, and removes another.
func (s *scene) jobRound(h store.Holder, claim store.Lease, name, old string) error {
	_, err := s.ChangeJobs(s.ctx, store.JobChange{
		Group: "g", Put: []task.Job{{Name: name}}, Remove: []string{old},
	})
	if err != nil {
		return err
	}
	got, err := s.Assign(s.ctx, store.Assign{
		Group: "g", Claim: claim, Start: []store.Place{{Job: name, Worker: "w1"}},
	})
	if err != nil || len(got.Refused) > 0 {
		return fmt.Errorf("start of %s: refused %+v, %w", name, got.Refused, err)
	}
	_, err = s.Observe(s.ctx, store.Observed{Holder: h, States: []store.Observation{
		{Group: "g", Job: name, Worker: "w1", Token: got.Version, State: task.JobRunning},
	}})
	return err
}
