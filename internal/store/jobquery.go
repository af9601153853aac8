package store

import (
	"cmp"
	"strings"

	"github.com/rotahq/rota/task"
)

// PlacementQuery selects replicas of a group's jobs. Zero fields select everything.
type PlacementQuery struct {
	Group  string // always given
	Job    string
	Worker string
	State  task.JobState
	After  PlacementKey // the page begins behind it
	Limit  int          // at most so many; 0 = all
}

// PlacementKey is where a replica stands in lists. While it moves it is on two workers.
type PlacementKey struct {
	Job     string
	Replica int
	Worker  string // "" of a pending one
}

// Key is where p stands.
func (p *Placement) Key() PlacementKey { return PlacementKey{p.Job, p.Replica, p.Worker} }

// Compare orders replicas by job, then replica, then worker.
func (k PlacementKey) Compare(other PlacementKey) int {
	return cmp.Or(strings.Compare(k.Job, other.Job), cmp.Compare(k.Replica, other.Replica),
		strings.Compare(k.Worker, other.Worker))
}
