package storetest

import (
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scripts are names in the order of their bytes. It is another one than that of any language, of
// letters regardless of case, and of UTF-16.
func scripts() []string {
	return []string{
		"Z", "_", "a", "a+b", "a:b", "a@b", "z", "é", "Очередь", "مهام", "हिन्दी", "邮件", "ﬀ", "𠮷",
	}
}

// nameClaims is what holds for names of all scripts. That they come in one form is for the doors.
func nameClaims() []claim {
	return []claim{
		{"NamesAreKeptAndListedByTheirBytes", func(s *scene) {
			want := scripts()
			for _, name := range slices.Backward(want) {
				_, err := s.ChangeQueue(s.ctx, name,
					func(*task.Queue, bool) error { return nil })
				s.ok(err)
				s.putNotifier(notifier(name), true)
				s.putHook(hook(name), true)
				s.group(name, 1)
				s.calendar(task.Calendar{Name: name, Skip: []string{"2026-12-25"}})
				s.schedule(name, s.clock.Micros()+1e9)
			}
			queues, err := s.Queues(s.ctx)
			s.ok(err)
			s.want("queues", namesOf(queues, func(q task.Queue) string { return q.Name }), want)
			s.want("notifiers",
				namesOf(s.notifiers(), func(n store.Notifier) string { return n.Name }), want)
			s.want("hooks", namesOf(s.hooks(), func(h store.Hook) string { return h.Name }), want)
			s.want("groups",
				namesOf(s.groups(), func(g store.Group) string { return g.Name }), want)
			s.want("calendars",
				namesOf(s.calendars(), func(c task.Calendar) string { return c.Name }), want)
			named := func(list []store.Schedule) []string {
				return namesOf(list, func(v store.Schedule) string { return v.Name })
			}
			s.want("schedules", named(s.listed(store.ScheduleQuery{})), want)
			for i, name := range want {
				s.want("schedules behind "+name,
					named(s.listed(store.ScheduleQuery{After: name, Limit: 3})),
					want[i+1:min(i+4, len(want))])
				s.want("schedule "+name, s.one(name).Name, name)
			}
		}},
		{"JobsAndWorkersHaveNamesOfAllScripts", func(s *scene) {
			want := scripts()
			h := s.join("节点@1")
			s.group("邮件", 1)
			var jobs []task.Job
			for _, name := range slices.Backward(want) {
				jobs = append(jobs, task.Job{Name: name, Load: task.Unit})
				s.sit(h, name, task.Unit)
			}
			s.change(store.JobChange{Group: "邮件", Put: jobs})
			listed := namesOf(s.changes("邮件", 0).Jobs,
				func(j store.GroupJob) string { return j.Name })
			slices.Sort(listed)
			s.want("jobs", listed, want)
			seats := namesOf(s.board(0).Seats.Seats,
				func(w store.Seat) string { return w.Worker })
			slices.Sort(seats)
			s.want("workers", seats, want)
			for _, name := range want {
				s.want("the node of "+name, s.seat(name).Node.Node, "节点@1")
			}
		}},
		{"TasksAreOfTheQueueAndWorkerWithTheSameBytes", func(s *scene) {
			want := scripts()
			h := s.join("a")
			for _, name := range want {
				b := s.batch(name, 1)
				b.Tasks[0].Key, b.Tasks[0].GroupKey = "键 "+name, "组"
				s.submit(h, b)
			}
			for _, name := range want {
				ids := s.list(store.Filter{Queue: name})
				s.want("tasks of "+name, len(ids), 1)
				s.want("queue", s.view(ids[0]).Queue, name)
				s.want("key", s.view(ids[0]).Key, "键 "+name)
			}
		}},
		{"AHolderIsANodeAndItsStartBehindTheLastAt", func(s *scene) {
			const name, other = "a@b", "a"
			member := func(node, holder string) {
				_, err := s.Acquire(s.ctx, store.MembershipPrefix+node, holder, time.Minute, nil)
				s.ok(err)
			}
			member(name, "a@b@start")
			wants := []store.Lease{{Name: "claim/x", Until: store.WhileMember}}
			got, err := s.AcquireAll(s.ctx, "a@b@start", wants, time.Minute, s.clock.Micros())
			s.ok(err)
			s.want("claims of a member whose name has an @", len(got.Leases), 1)
			member(other, "a@later")
			wants[0].Name = "claim/y"
			got, err = s.AcquireAll(s.ctx, "a@later", wants, time.Minute, s.clock.Micros())
			s.ok(err)
			s.want("claims of the other", len(got.Leases), 1)
			s.clock.Advance(30 * time.Second)
			member(other, "a@later")
			s.clock.Advance(40 * time.Second) // the first is no member any more
			for _, claim := range []string{"claim/x", "claim/y"} {
				wants[0].Name = claim
				got, err = s.AcquireAll(s.ctx, "a@later", wants, time.Minute, s.clock.Micros())
				s.ok(err)
				s.want(claim+" is free for the other", len(got.Leases), 1)
			}
		}},
	}
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = name(v)
	}
	return names
}
