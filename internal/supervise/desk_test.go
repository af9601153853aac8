package supervise_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/storetest"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

// desk is a roster and supervisors whose rounds a test makes one by one, with workers that only talk.
type desk struct {
	*house
	holder store.Holder
	board  *supervise.Board
	roster *supervise.Roster
	held   error // why the node is not certainly a member; nil = it is
	told   map[string]int
}

// atDesk runs a test at the desk of node n1.
func atDesk(t *testing.T, test func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{house: &house{t: t, store: storetest.NewModel(time.Now)}}
		d.sit("n1")
		test(d)
	})
}

// sit begins a life of a node.
func (d *desk) sit(node string) {
	d.t.Helper()
	d.holder = store.Holder{Node: node, Token: d.lease("node/"+node, node).Token}
	d.board = supervise.NewBoard(d.store, beat)
	d.told = map[string]int{}
	var err error
	d.roster, err = supervise.NewRoster(supervise.RosterConfig{
		Board: d.board, Store: d.store, Holder: d.holder, Secret: secret, Beat: beat, Held: func() error { return d.held },
		Reserve: func(worker string, _ task.Units) { d.told[worker]++ },
	})
	d.must(err)
}

// lease takes a lease from whoever has it.
func (d *desk) lease(name, holder string) store.Lease {
	d.t.Helper()
	had, err := d.store.LeasesOf(d.t.Context(), name)
	d.must(err)
	d.must(d.store.EndAll(d.t.Context(), had, false))
	got, err := d.store.AcquireAll(d.t.Context(), holder, []store.Lease{{Name: name}}, time.Hour, math.MaxInt64)
	d.must(err)
	return got.Leases[0]
}

// supervisor claims a group anew.
func (d *desk) supervisor(group, node string) *supervise.Supervisor {
	d.t.Helper()
	return d.supervisorOn(group, node, d.store)
}

func (d *desk) supervisorOn(group, node string, db supervise.Writer) *supervise.Supervisor {
	d.t.Helper()
	claim := d.lease("claim/group/"+group, node)
	s, err := supervise.New(supervise.Config{
		Board: d.board, Store: db, Group: group, Beat: beat, Tell: d.note,
		Claim: store.Lease{Name: claim.Name, Holder: node, Token: claim.Token},
	})
	d.must(err)
	return s
}

func (d *desk) note(e store.Event) { d.events = append(d.events, e.Kind+" "+e.Text) }

// round is a beat of the roster.
func (d *desk) round() {
	d.t.Helper()
	d.must(d.roster.Round(d.t.Context(), time.Now()))
}

// crew lets so many workers beat that run nothing.
func (d *desk) crew(n int, capacity float64) {
	d.t.Helper()
	for i := range n {
		d.roster.Hear(&task.Beat{Worker: fmt.Sprintf("w%04d", i), Incarnation: "i", Capacity: capacity, Groups: []string{"g"}})
	}
	d.round()
}

// decide makes rounds until nothing is assigned any more.
func (d *desk) decide(s *supervise.Supervisor) {
	d.t.Helper()
	for last := -1; last != len(d.stand("g")); time.Sleep(beat) {
		last = len(d.stand("g"))
		for range 4 {
			d.must(s.Round(d.t.Context(), time.Now()))
			time.Sleep(beat)
		}
	}
}

// obey is the beat of a worker that runs all that it is to run.
func (d *desk) obey(worker string, capacity float64) task.Orders {
	d.t.Helper()
	return d.runs(worker, capacity, d.stand("g"))
}

func (d *desk) runs(worker string, capacity float64, stand []store.Assignment) task.Orders {
	d.t.Helper()
	b := task.Beat{Worker: worker, Incarnation: "i", Capacity: capacity, Groups: []string{"g"}}
	for _, a := range stand {
		if a.Worker == worker {
			token := task.JobToken{Number: a.Token}.Sealed(task.NewSealer(secret), "g", a.Job, a.Replica, worker)
			b.Jobs = append(b.Jobs, task.Run{Group: "g", Job: a.Job, Replica: a.Replica, Token: token.String(), State: task.JobRunning})
		}
	}
	d.roster.Hear(&b)
	d.round()
	o, err := d.roster.Orders(&b)
	d.must(err)
	return o
}
