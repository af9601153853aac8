package store

import (
	"errors"
	"time"
)

// ErrAway: a node that might know, or had to act, did not answer.
var ErrAway = errors.New("no answer")

// ErrForcible is an ErrConflict that force overcomes.
var ErrForcible error = forcible{}

type forcible struct{}

func (forcible) Error() string { return ErrConflict.Error() }
func (forcible) Unwrap() error { return ErrConflict }

// Node is a node as it stands, for people and programs.
type Node struct {
	Name      string
	Address   string // at which the others reach it; "" = at none
	State     string // working, draining, drained, unreachable, offline, left
	Score     float64
	CPU       float64 // in use, of all there is
	Memory    float64 // in use, of all there is
	Executors int     // tasks that it runs itself, at most
	Running   int     // tasks that it runs itself
	Tasks     int     // that it holds, for whichever workers
	Owned     int     // keys
	Target    int     // keys that are its share
	Cap       int     // keys that it may own at most; an orphan is taken all the same
	Alarm     int     // keys above which it raises an alarm; 0 = never
	Strikes   []Strike
	Joined    int64
	Seen      int64 // when it was heard of last, by the store's clock
	Down      int64 // of one that is offline, or left: since when
}

// Strike is what another node says that it found of one.
type Strike struct {
	By     string
	Misses int // in a row
}

// Claim is a key that exactly one node looks after, and who does.
type Claim struct {
	Key   string // kind/key
	Owner string // a node; "" = nobody
	Token int64
	Since int64 // when the owner got it; 0 = not known
	Until int64 // when the right ends if it is not renewed; 0 = it ended
	// the node that somebody gave it to; "" = nobody did, or that is over
	Assigned      string
	AssignedBy    string
	AssignedUntil int64
}

// MaxAssigned is how long a key may be given to a node, at most.
const MaxAssigned = 365 * 24 * time.Hour

// ClaimAssignment is somebody's decision that a node is to look after a key.
type ClaimAssignment struct {
	Key, Node string
	By        string
	For       time.Duration // how long it stands; 0 = an hour
	Force     bool          // also above the node's cap
}

// Shedding says what of a node's keys is to be given back.
type Shedding struct {
	Node  string
	Count int    // keys
	Kind  string // only of this kind; "" = of any
	Each  bool   // Count keys of each kind
	Force bool   // also what the other nodes may not own
}

// Cluster is all nodes and what they share out.
type Cluster struct {
	Keys      int // K
	Unowned   int // of them
	Working   int // S
	Tolerance int // so many nodes are promised to be dispensable
	// so many are: any of them can die at the same moment with every key still ownable
	AtOnce int
	// nodes whose deaths hurt most, the worst first; all of them together are one too many
	Weakest []string
	Nodes   []Node // by name
	Store   string // kind of store
	Chores  []Chore
	// Rebalance is when nodes give keys back, auto or manual; "" = that is not settled yet.
	Rebalance string
}

// Chore is what one node does for all.
type Chore struct {
	Name string
	Node string // that did it last; "" = none yet
}
