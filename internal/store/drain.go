package store

import (
	"encoding/json"
	"strings"

	"github.com/rotahq/rota/task"
)

// Drain is what an operator said of a worker: that it is to give up work, all of it or a part. It
// stands in a lease, which every node's beat reads, until somebody takes it back.
type Drain struct {
	// Shed is how much of its capacity is to be free; 0 = all of it: it takes nothing new.
	Shed task.Units `json:"shed,omitempty"`
	// By is when what is left then is taken from it, by the store's clock; 0 = never.
	By int64 `json:"by,omitempty"`
}

// DrainPrefix begins the names of the leases that say what workers are to give up.
const DrainPrefix = "worker/"

// Lease is the lease that says so of a worker, to be acquired.
func (d Drain) Lease(worker string) (Lease, error) {
	value, err := json.Marshal(d)
	return Lease{Name: DrainPrefix + worker, Value: value}, err
}

// DrainOf reads what a lease says, if it is one that does and stands. One whose value can't be read
// says that the worker takes nothing new.
func DrainOf(l *Lease) (worker string, d Drain, ok bool) {
	worker, ok = strings.CutPrefix(l.Name, DrainPrefix)
	if !ok || l.Until == 0 {
		return "", Drain{}, false
	}
	if err := json.Unmarshal(l.Value, &d); err != nil || d.Shed < 0 {
		d = Drain{}
	}
	return worker, d, true
}

// Covers tells whether what another drain asks for is part of this one, whenever it is to be.
func (d Drain) Covers(other Drain) bool {
	return d.Whole() || !other.Whole() && d.Shed >= other.Shed
}

// Whole tells whether the worker is to take nothing new.
func (d Drain) Whole() bool { return d.Shed == 0 }
