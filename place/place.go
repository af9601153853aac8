package place

import "slices"

// Job is endless work that is to run on Replicas different workers at once.
type Job struct {
	Name     string
	Load     Load // what each replica takes of its worker's capacity; 0 = nothing
	Replicas int  // how many; default 0 = Policy.Replicas, at most MaxReplicas
}

// MaxReplicas is how many replicas a job can have.
const MaxReplicas = 10_000

// Worker is a place to run on.
type Worker struct {
	Name     string
	Capacity Load // what all that runs there may take together; 0 = it takes nothing
	Used     Load // taken by what is not of these jobs and stays: other groups' jobs
	// taken by what ends by itself, as tasks do: nothing starts in its room, but nothing gives way
	// to it either
	Passing  Load
	Labels   map[string]string
	Zone     string // what fails together with others of the same zone; empty = a zone of its own
	Draining bool   // gets nothing, and is emptied within the budget of moves
	// Shed is what is to be free of its Capacity: nothing starts in it, and what runs there beyond
	// the rest moves away, within the budget of moves. As much as Capacity or more is as Draining;
	// a part changes nothing in what share of the capacity is in use.
	Shed Load
	// Most is how many replicas of these jobs it may have, whatever their loads; default 0 = as
	// many as its capacity allows. One that has so many has no room: chains of moves don't lead
	// over it, and FaultBudget does not look at it.
	Most int
}

// Replica is one replica of a job on a worker, as it is now. The replicas of a job are numbered
// from 0.
type Replica struct {
	Job     string
	Replica int
	Worker  string

	// Going: it is being ended. Until it is gone it takes capacity, and keeps other replicas of the
	// job off the worker.
	Going bool
	// Moving: another one is being started in its place, after which this one is to end. Until it
	// is gone it is like a Going one. When the other is not there, or is no more, this one counts
	// as though it were not Moving.
	Moving bool
	// Load is what it takes when its job is no longer listed; else it is not looked at.
	Load Load
}

// Penalty keeps a job off a worker for now, because it failed there. A replica that is there moves
// away, within the budget.
type Penalty struct{ Job, Worker string }

// State is all that a plan is made of. The order in each list does not matter.
type State struct {
	Jobs      []Job
	Workers   []Worker // those that live
	Current   []Replica
	Penalties []Penalty // of unknown jobs or workers they mean nothing
}

// Policy is how replicas are placed. The zero value is useful.
type Policy struct {
	Replicas int               // of a job that says nothing else; default 1
	Selector map[string]string // labels that a worker must have; default none
	// a job's replicas are in different zones as far as there is room there; default: only on
	// different workers
	Zones bool
	Moves int // replicas moved per plan at most; default 0 = 10, negative = none
	// replicas started (or moved) per worker and plan at most; default 0 = 4, negative = no limit
	New int

	// Stop is asked every few thousand steps whether to go on; its error ends the call, which then
	// answers that and nothing else. It changes no plan. Default: nobody is asked.
	Stop func() error
}

// Defaults of a policy.
const (
	DefaultMoves = 10
	DefaultNew   = 4
)

// Plan is what is to be done now. Each list is sorted by job and replica.
type Plan struct {
	Start   []Start
	Stop    []Stop
	Move    []Move
	Pending []Pending // replicas that run nowhere and are not started now
	Stay    []Stay    // replicas that are to leave their worker and cannot yet
}

// Empty reports whether the plan changes nothing.
func (p Plan) Empty() bool { return len(p.Start)+len(p.Stop)+len(p.Move) == 0 }

// Start begins a replica that runs nowhere.
type Start struct {
	Job     string
	Replica int
	Worker  string
}

// Stop ends a replica. When it has a place elsewhere, the same plan starts it there.
type Stop struct {
	Job     string
	Replica int
	Worker  string
	Reason  Reason
}

// Move starts a replica at To and, when it runs there, ends it at From.
type Move struct {
	Job      string
	Replica  int
	From, To string
	Reason   Reason
}

// Pending is a replica that runs nowhere, and why.
type Pending struct {
	Job     string
	Replica int
	Reason  Reason
}

// Stay is a replica that is to leave its worker: what drives it off, and what keeps it.
type Stay struct {
	Job     string
	Replica int
	Worker  string
	Cause   Code
	Reason  Reason
}

// Compute decides what is to be done so that the state becomes as the package comment says. It
// changes nothing and remembers nothing: the next plan is made of the next state. The error is a
// *InputError and names everything that is wrong with the input, or what Policy.Stop said.
func Compute(s State, p Policy) (plan Plan, err error) {
	defer ended(&err)
	b, err := decide(s, p)
	if err != nil {
		return Plan{}, err
	}
	return (&planning{board: b}).plan(), nil
}

// decide makes the goal: in order of importance, capacity, as many replicas as can run (firsts
// before seconds), leaving workers that are to be left, and balance.
func decide(s State, p Policy) (*board, error) {
	if err := check(s, p); err != nil {
		return nil, err
	}
	b := newBoard(s, p)
	filling, vacating, levelling := filling{board: b}, vacating{board: b}, levelling{b}
	b.stopExcess()
	filling.fill()
	vacating.vacate()
	levelling.level()
	for filling.fill() { // with unequal loads, what is more even may leave more room in one place
		levelling.level()
	}
	// it ended or moves after all
	b.stays = slices.DeleteFunc(b.stays, func(d drive) bool {
		return b.home[d.slot] == none || b.at[d.slot] != b.home[d.slot]
	})
	vacating.keepExcess()
	return b, nil
}
