package supervise

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// pictureOf draws a group from text: "job/replica@worker state …" for assignments, and workers by
// name of 10 units each; "-name" is silent, "?name" an orphan of 5 s, "name!" draining.
func pictureOf(jobs []string, workers, assignments string) *snapshot {
	p := &snapshot{
		now: time.Hour.Microseconds(), group: store.Group{Group: limits.DefaultGroup("g")},
		others: map[string]bool{}, exact: true,
	}
	for _, name := range jobs {
		p.jobs = append(p.jobs, &store.GroupJob{
			Job: task.Job{Name: name, Load: task.Unit}, Version: 1,
		})
	}
	for _, name := range strings.Fields(workers) {
		s := &store.Seat{
			Worker: strings.Trim(name, "-?!"), Capacity: 10 * task.Unit, Groups: []string{"g"},
			State: store.SeatTaken,
		}
		switch {
		case strings.HasPrefix(name, "-"):
			s.State = store.SeatSilent
		case strings.HasPrefix(name, "?"):
			s.State, s.Since = store.SeatOrphan, p.now-(5*time.Second).Microseconds()
		}
		s.Draining = strings.HasSuffix(name, "!")
		p.seats = append(p.seats, s)
	}
	fields := strings.Fields(assignments)
	for i := 0; i < len(fields); i += 2 {
		job, rest, _ := strings.Cut(fields[i], "/")
		n, worker, _ := strings.Cut(rest, "@")
		a := &store.Assignment{
			Group: "g", Job: job, Worker: worker, State: task.JobState(fields[i+1]),
			Load: task.Unit, Token: 5, Failed: p.now - 1,
		}
		fmt.Sscan(n, &a.Replica)
		p.rows = append(p.rows, a)
		for _, s := range p.seats {
			if s.Worker == worker {
				s.Used += task.Unit
			}
		}
	}
	return p
}

func verbs(in *plan) string {
	var parts []string
	for _, l := range []struct {
		verb string
		list []store.Place
	}{{"start", in.Start}, {"move", in.Move}, {"end", in.End}, {"drop", in.Drop}} {
		for _, p := range l.list {
			text := fmt.Sprintf("%s %s/%d@%s", l.verb, p.Job, p.Replica, p.Worker)
			if p.From != "" {
				text += "<" + p.From
			}
			parts = append(parts, text)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		jobs        string
		replicas    int
		workers     string
		assignments string
		change      func(p *snapshot)
		want        string
	}{
		"nothing to do": {jobs: "a b", workers: "v w",
			assignments: "a/0@v running b/0@w running"},
		"what has no worker starts": {jobs: "a", workers: "v", want: "start a/0@v"},
		"the dead one's start elsewhere": {jobs: "a", workers: "v -w",
			assignments: "a/0@w running", want: "drop a/0@w, start a/0@v"},
		"what ends on a dead one is over": {jobs: "a", workers: "v -w",
			assignments: "a/0@v running a/0@w ending", want: "drop a/0@w"},
		"an orphan keeps what it has": {jobs: "a b", workers: "v ?w",
			assignments: "a/0@w running", want: "start b/0@v"},
		"paused: only the dead are buried": {jobs: "a b", workers: "v -w",
			assignments: "a/0@w running", change: func(p *snapshot) {
				p.group.Paused = true
			}, want: "drop a/0@w"},
		"removed jobs end": {workers: "v", assignments: "a/0@v running",
			want: "end a/0@v"},
		"fewer replicas": {jobs: "a", workers: "v w",
			assignments: "a/0@v running a/1@w running", want: "end a/1@w"},
		"drained": {jobs: "a", workers: "v w!",
			assignments: "a/0@w running", want: "move a/0@v<w"},
		"the successor runs": {jobs: "a", workers: "v w!",
			assignments: "a/0@v running a/0@w moving", want: "end a/0@w"},
		"the successor is on its way": {jobs: "a", workers: "v w!",
			assignments: "a/0@v starting a/0@w moving"},
		"the successor failed": {jobs: "a", workers: "v w!",
			assignments: "a/0@v failed a/0@w moving", want: "end a/0@v"},
		"the successor's worker died": {jobs: "a", workers: "-v w!",
			assignments: "a/0@v starting a/0@w moving", want: "drop a/0@v"},
		"the predecessor's worker died": {jobs: "a", workers: "v -w",
			assignments: "a/0@v starting a/0@w moving", want: "drop a/0@w"},
		"no move while the budget is under way": {jobs: "a b", workers: "v w!",
			assignments: "a/0@v starting a/0@w moving b/0@w running",
			change:      func(p *snapshot) { p.group.Policy.Moves = 1 }},
		"a failing one leaves": {jobs: "a", workers: "v w", assignments: "a/0@w failed",
			want: "move a/0@v<w"},
		"but only once a minute": {jobs: "a", workers: "v w x", assignments: "a/0@w failed",
			change: func(p *snapshot) {
				p.failed = []*store.Assignment{
					{Job: "a", Worker: "x", State: store.Ended, Failed: p.now - 1},
				}
			}},
		"a changed job starts anew, one at a time": {jobs: "a", replicas: 2, workers: "v w",
			assignments: "a/0@v running a/1@w running",
			change:      func(p *snapshot) { p.jobs[0].Version = 9 }, want: "end a/0@v"},
		"one that was assigned with the load that its job had": {jobs: "a", replicas: 2,
			workers: "v w", assignments: "a/0@v running a/1@w running",
			change: func(p *snapshot) { p.rows[1].Load = 2 * task.Unit }, want: "end a/1@w"},
		"not beside the moves that there may be": {jobs: "a b", workers: "v w!",
			assignments: "a/0@w running b/0@v running",
			change: func(p *snapshot) {
				p.jobs[1].Version, p.group.Policy.Moves = 9, 1
			}, want: "move a/0@v<w"},
		"an orphan is not drained": {jobs: "a", workers: "v ?w!", assignments: "a/0@w running"},
		"while the other is assigned": {jobs: "a", replicas: 2, workers: "v w",
			assignments: "a/0@v running",
			change:      func(p *snapshot) { p.jobs[0].Version = 9 }, want: "start a/1@w"},
		"while the other runs": {jobs: "a", replicas: 2, workers: "v w",
			assignments: "a/0@v starting a/1@w running",
			change:      func(p *snapshot) { p.jobs[0].Version, p.rows[0].Token = 9, 10 }},
		"who serves no more is told": {jobs: "a", workers: "v", assignments: "a/0@w running",
			change: func(p *snapshot) { p.others["w"] = true }, want: "end a/0@w, start a/0@v"},
		"who was forgotten is not": {jobs: "a", workers: "v", assignments: "a/0@w running",
			want: "drop a/0@w, start a/0@v"},
		"not where it failed": {jobs: "a", workers: "v w", change: func(p *snapshot) {
			p.failed = []*store.Assignment{
				{Job: "a", Worker: "v", State: store.Ended, Failed: p.now - 1},
			}
		}, want: "start a/0@w"},
		"balance": {jobs: "a b", workers: "v w", assignments: "a/0@v running b/0@v running",
			want: "move a/0@w<v"},
		"but not while something starts": {jobs: "a b c", workers: "v w",
			assignments: "a/0@v running b/0@v running c/0@v starting",
			change:      func(p *snapshot) { p.rows[2].Since = p.now - 1 }},
		"nor beside what starts": {jobs: "a b c d", workers: "v w",
			assignments: "a/0@v running b/0@v running c/0@v running",
			want:        "start d/0@w"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pictureOf(strings.Fields(c.jobs), c.workers, c.assignments)
			p.group.Replicas = max(c.replicas, 1)
			if c.change != nil {
				c.change(p)
			}
			in, err := p.decide(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := verbs(in); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWorkerHasNoMoreReplicasThanABeatCanName(t *testing.T) {
	jobs := make([]string, 2*mostRuns)
	for i := range jobs {
		jobs[i] = fmt.Sprintf("j%05d", i)
	}
	p := pictureOf(jobs, "w", "")
	for _, j := range p.jobs {
		j.Load = 0
	}
	p.group.Policy.New = limits.MaxJobs
	for _, groups := range []int{1, 2} {
		p.seats[0].Groups = []string{"g", "h"}[:groups]
		in, err := p.decide(nil)
		if err != nil || len(in.Start) != mostRuns/groups ||
			len(in.pending) != len(jobs)-mostRuns/groups {
			t.Errorf("of %d groups: %d start and %d wait, %v", groups, len(in.Start),
				len(in.pending), err)
		}
	}
	b := task.Beat{
		Worker: "w", Incarnation: "i", Groups: []string{"g"}, Jobs: make([]task.Run, mostRuns),
	}
	for i := range b.Jobs {
		b.Jobs[i] = task.Run{
			Group: "g", Job: jobs[i],
			Token: seal.NewSealer(seal.Secret{}).SealJob(task.JobToken{Number: 1}, "g", jobs[i], 0,
				"w").String(), State: task.JobRunning,
		}
	}
	text := wire.AppendBeat(nil, b)
	if _, err := wire.ParseBeat(text); err != nil {
		t.Error(err)
	}
}

func TestPictureIsOfOneMoment(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(p *snapshot)
		whole  bool
	}{
		{"everybody is known", func(*snapshot) {}, true},
		{"what is used was counted when the assignments stood otherwise", func(p *snapshot) {
			p.exact = false
		}, false},
		{"a worker came after the seats were read", func(p *snapshot) {
			p.seats = p.seats[:1]
		}, false},
		{"a worker serves the group no more", func(p *snapshot) {
			p.seats, p.others["w"] = p.seats[:1], true
		}, true},
	} {
		p := pictureOf([]string{"a"}, "v w", "a/0@v running a/1@w running")
		if c.change(p); p.whole() != c.whole {
			t.Errorf("%s: whole %v", c.what, !c.whole)
		}
	}
}

func TestCensus(t *testing.T) {
	second := time.Second.Microseconds()
	for name, c := range map[string]struct {
		orphans, taken int
		age            int64 // of the orphans, in seconds
		steady         int64 // for so many seconds the store was heard
		overlap        int64 // for so many seconds no other node could answer them; 0 = ever
		gone           int
		brake          bool
		due            int64 // in seconds from now
	}{
		"young":                        {orphans: 2, taken: 8, age: 14, steady: 100, due: 1},
		"overdue":                      {orphans: 2, taken: 8, age: 15, steady: 100, gone: 2},
		"the store was away meanwhile": {orphans: 2, taken: 8, age: 40, steady: 5, due: 10},
		"another node might answer them": {orphans: 2, taken: 8, age: 40, overlap: 6, steady: 100,
			due: 9},
		"it can't any more": {orphans: 2, taken: 8, age: 40, overlap: 15, steady: 100, gone: 2},
		"many": {orphans: 5, taken: 8, age: 15, steady: 100, brake: true,
			due: 15},
		"many, and for long": {orphans: 5, taken: 8, age: 30, steady: 100, gone: 5},
		"few of many":        {orphans: 5, taken: 20, age: 15, steady: 100, gone: 5},
		"all of few":         {orphans: 4, age: 15, steady: 100, gone: 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := &snapshot{now: time.Hour.Microseconds()}
			p.steady = p.now - c.steady*second
			for i := range c.orphans + c.taken {
				s := &store.Seat{Worker: fmt.Sprint("w", i), State: store.SeatTaken}
				if i < c.orphans {
					s.State, s.Since = store.SeatOrphan, p.now-c.age*second
					if c.overlap > 0 {
						s.Overlap = p.now - c.overlap*second
					}
				}
				p.seats = append(p.seats, s)
			}
			got := p.census()
			due := int64(0)
			if got.due != 0 {
				due = (got.due - p.now) / second
			}
			if len(got.gone) != c.gone || len(got.hold) != c.orphans-c.gone ||
				got.brake != c.brake || due != c.due {
				t.Errorf("%d gone, %d held, brake %v, due in %d s", len(got.gone), len(got.hold),
					got.brake, due)
			}
		})
	}
}

func TestWarmup(t *testing.T) {
	const beat = time.Second
	start := time.Unix(1000, 0) // when the supervisor begins
	seat := func(s store.SeatState) *store.Seat { return &store.Seat{Worker: "w", State: s} }
	recent := func(s store.SeatState) *store.Seat {
		return &store.Seat{Worker: "w", State: s, Joined: start.Add(-beat).UnixMicro()}
	}
	for name, c := range map[string]struct {
		seats func(second int) []*store.Seat
		limit time.Duration
		over  int // at this second
	}{
		"all are there": {func(int) []*store.Seat {
			return []*store.Seat{seat(store.SeatTaken)}
		}, 0, 0},
		"one is to come back": {func(int) []*store.Seat {
			return []*store.Seat{seat(store.SeatTaken), seat(store.SeatOrphan)}
		}, 0, 30},
		"and does": {func(s int) []*store.Seat {
			return []*store.Seat{
				seat([]store.SeatState{store.SeatOrphan, store.SeatTaken}[min(s/7, 1)]),
			}
		}, 0, 7},
		"the node is impatient": {func(int) []*store.Seat {
			return []*store.Seat{seat(store.SeatOrphan)}
		}, 5 * time.Second, 5},
		"the group is": {func(int) []*store.Seat {
			return []*store.Seat{seat(store.SeatOrphan)}
		}, time.Hour, 30},
		"nobody was known": {func(s int) []*store.Seat {
			return []*store.Seat{seat(store.SeatTaken)}[:min(s/50, 1)]
		}, 0, 53},
		"the first came just before it": {func(s int) []*store.Seat {
			return []*store.Seat{recent(store.SeatTaken), recent(store.SeatTaken)}[:min(1+s, 2)]
		}, 0, 3},
		"who came just before it is not the only one": {func(s int) []*store.Seat {
			return []*store.Seat{recent(store.SeatTaken), seat(store.SeatTaken)}
		}, 0, 0},
		"only dead are known": {func(s int) []*store.Seat {
			return []*store.Seat{
				seat([]store.SeatState{store.SeatSilent, store.SeatTaken}[min(s/5, 1)]),
			}
		}, 0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			w := warmup{limit: c.limit}
			p := &snapshot{group: store.Group{Group: limits.DefaultGroup("g")}}
			for s := range 60 {
				at := start.Add(time.Duration(s) * time.Second)
				p.seats, p.now = c.seats(s), at.UnixMicro()
				if w.done(p, at, beat); w.over {
					if s != c.over {
						t.Errorf("over after %d s, want %d", s, c.over)
					}
					return
				}
			}
			t.Error("never over")
		})
	}
}

func TestShortIsAGroupWithAReplicaThatNobodyHas(t *testing.T) {
	for assignments, short := range map[string]bool{
		"a/0@w1 running a/1@w2 starting b/0@w1 running b/1@w2 failed":                false,
		"a/0@w1 moving a/0@w3 starting a/1@w2 running b/0@w1 running b/1@w2 running": false,
		"a/0@w1 running a/1@w2 starting b/1@w2 running":                              true,
		"a/0@w1 running a/1@w2 ending b/0@w1 running b/1@w2 running":                 true,
		"a/0@w1 running a/1@w2 running b/0@w1 running c/0@w1 running c/1@w2 running": true,
		"a/0@w1 running a/1@w2 running b/0@w1 running b/1@w2 running c/0@w1 running": false,
		"a/0@w1 moving a/0@w3 starting a/2@w2 running b/0@w1 running b/1@w2 running": true,
		"": true,
	} {
		p := pictureOf([]string{"a", "b"}, "w1 w2 w3", assignments)
		p.group.Replicas = 2
		if p.short() != short {
			t.Errorf("%s: short %v", assignments, !short)
		}
	}
}

func TestQuietReplicasMoveOrEnd(t *testing.T) {
	for name, c := range map[string]struct {
		workers, assignments string
		change               func(p *snapshot)
		want                 string
	}{
		"to another worker": {
			workers: "v w", assignments: "a/0@v failed", want: "move a/0@w<v",
		},
		"though it failed elsewhere, too": {
			workers: "u v w", assignments: "a/0@v failed",
			change: func(p *snapshot) {
				elsewhere := &store.Assignment{Job: "a", Worker: "u", Failed: p.now - 1}
				p.failed = append(p.failed, elsewhere)
			},
			want: "move a/0@w<v",
		},
		"with no other place it waits a while": {workers: "v", assignments: "a/0@v failed"},
		"and then ends": {
			workers: "v", assignments: "a/0@v failed",
			change: func(p *snapshot) { p.rows[0].Failed = p.now - patient.Microseconds() },
			want:   "end a/0@v",
		},
		"as many as may move": {
			workers: "v", assignments: "a/0@v failed b/0@v failed c/0@v failed",
			change: func(p *snapshot) {
				p.group.Policy.Moves = 2
				for _, a := range p.rows {
					a.Failed = p.now - patient.Microseconds()
				}
			},
			want: "end a/0@v, end b/0@v",
		},
		"of a paused group none does": {
			workers: "v w", assignments: "a/0@v failed",
			change: func(p *snapshot) { p.group.Paused = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := []string{"a", "b", "c"}[:len(strings.Fields(c.assignments))/2]
			p := pictureOf(jobs, c.workers, c.assignments)
			for _, a := range p.rows {
				a.Quiet = true
			}
			if c.change != nil {
				c.change(p)
			}
			in, err := p.decide(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := verbs(in); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// The rows of a worker that is gone stand until a supervisor may decide; they do not run for that.
func TestWhatAWorkerThatIsGoneRanCountsAsPendingOnly(t *testing.T) {
	p := pictureOf([]string{"a", "b", "c"}, "w1 -w2", "a/0@w1 running b/0@w2 running c/0@w2 moving")
	p.group.Replicas = 1
	s := &sketch{snapshot: p, census: p.census()}
	if g := s.count(); g.Running != 1 || g.Moving != 0 || g.Pending != 2 || g.Wanted != 3 {
		t.Errorf("%d run, %d move and %d wait of %d", g.Running, g.Moving, g.Pending, g.Wanted)
	}
}
