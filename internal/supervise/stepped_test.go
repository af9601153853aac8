package supervise_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

// stepped is a node whose rounds a test does one by one, with workers that only talk.
type stepped struct {
	*house
	holder   store.Holder
	cache    *supervise.ClusterCache
	sessions *supervise.Sessions
	held     error // why the node is not certainly a member; nil = it is
	told     map[string]int
}

// inSteps runs a test with node n1, round by round.
func inSteps(t *testing.T, test func(d *stepped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &stepped{house: newHouse(t)}
		d.sit("n1")
		test(d)
	})
}

// sit begins a life of a node.
func (d *stepped) sit(node string) {
	d.T.Helper()
	d.holder = store.Holder{Node: node, Token: d.lease("node/"+node, node).Token}
	d.cache = supervise.NewClusterCache(d.Store, beat)
	d.told = map[string]int{}
	var err error
	d.sessions, err = supervise.NewSessions(supervise.SessionsConfig{
		Cache: d.cache, Store: d.Store, Holder: d.holder, Secret: nodetest.Secret(), Beat: beat,
		MaxAge: maxAge,
		Held: func() error {
			return d.held
		},
		Reserve: func(worker string, _ task.Units) { d.told[worker]++ },
	})
	d.Must(err)
}

// lease takes a lease from whoever has it.
func (d *stepped) lease(name, holder string) store.Lease {
	d.T.Helper()
	had, err := d.Store.LeasesOf(d.T.Context(), name)
	d.Must(err)
	d.Must(d.Store.EndAll(d.T.Context(), had, false))
	got, err := d.Store.AcquireAll(d.T.Context(), holder, []store.Lease{{Name: name}}, time.Hour,
		math.MaxInt64)
	d.Must(err)
	return got.Leases[0]
}

// supervisor claims a group anew.
func (d *stepped) supervisor(group, node string) *supervise.Supervisor {
	d.T.Helper()
	return d.supervisorOn(group, node, d.Store)
}

func (d *stepped) supervisorOn(group, node string, db supervise.Writer) *supervise.Supervisor {
	d.T.Helper()
	claim := d.lease("claim/group/"+group, node)
	s, err := supervise.New(supervise.Config{
		Cache: d.cache, Store: db, Group: group, Beat: beat, Tell: d.note,
		Claim: store.Lease{Name: claim.Name, Holder: node, Token: claim.Token},
	})
	d.Must(err)
	return s
}

func (d *stepped) note(e store.Event) { d.events = append(d.events, e.Kind+" "+e.Text) }

// round is one round of the sessions.
func (d *stepped) round() {
	d.T.Helper()
	d.Must(d.sessions.Round(d.T.Context(), time.Now()))
}

// addWorkers lets so many workers beat that run nothing, and waits until they are no newcomers.
func (d *stepped) addWorkers(n int, capacity float64) {
	d.T.Helper()
	for i := range n {
		d.sessions.Hear(&task.Beat{
			Worker: fmt.Sprintf("w%04d", i), Incarnation: "i", Capacity: capacity,
			Groups: []string{"g"},
		})
	}
	d.round()
	time.Sleep(3 * beat)
}

// decide makes rounds until nothing is assigned any more.
func (d *stepped) decide(s *supervise.Supervisor) {
	d.T.Helper()
	for last := -1; last != len(d.stand("g")); time.Sleep(beat) {
		last = len(d.stand("g"))
		for range 4 {
			d.Must(s.Round(d.T.Context(), time.Now()))
			time.Sleep(beat)
			d.Must(d.cache.Look(d.T.Context()))
		}
	}
}

// obey is the beat of a worker that runs all that it is to run.
func (d *stepped) obey(worker string, capacity float64) task.Orders {
	d.T.Helper()
	return d.runs(worker, capacity, d.stand("g"))
}

func (d *stepped) runs(worker string, capacity float64, stand []store.Assignment) task.Orders {
	d.T.Helper()
	b := task.Beat{Worker: worker, Incarnation: "i", Capacity: capacity, Groups: []string{"g"}}
	for _, a := range stand {
		if a.Worker == worker {
			token := seal.NewSealer(nodetest.Secret()).SealJob(
				task.JobToken{Number: a.Token}, "g", a.Job, a.Replica, worker)
			b.Jobs = append(b.Jobs, task.Run{
				Group: "g", Job: a.Job, Replica: a.Replica, Token: token.String(),
				State: task.JobRunning,
			})
		}
	}
	d.sessions.Hear(&b)
	d.round()
	o, err := d.sessions.Orders(d.T.Context(), &b)
	d.Must(err)
	return o
}
