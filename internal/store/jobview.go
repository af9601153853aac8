package store

import "github.com/rotahq/rota/task"

// GroupView is a group for people and programs.
type GroupView struct {
	Group
	Wanted     int // replicas of all jobs
	Running    int
	Starting   int
	Failed     int
	Pending    int // replicas without a worker
	Moving     int
	Ending     int
	Supervisor string // the node that looks after it; "" = none at present
	Budget     JobBudget
}

// JobBudget says how many workers can die at the same moment with a place left for every replica of
// the group, and of all groups that share workers with it, be it by way of others.
type JobBudget struct {
	Workers int
	Exact   bool     // else it is a lower bound
	Weakest []string // workers whose deaths hurt most, the worst first
	// workers without which some replica is certain to have no place; none without jobs
	Breaking []string
	Groups   []string // the groups whose replicas would lack room then, by name
	Text     string   // a sentence
}

// Placement is one replica of a job and where it is, or why it is nowhere.
type Placement struct {
	Job     string
	Replica int
	Worker  string // "" of a pending one
	State   task.JobState
	Since   int64 // of a pending one: 0
	Reason  Reason
}

// Reason is why something is so.
type Reason struct {
	Code string // for programs: one word with dashes, as in no-capacity
	Text string // a sentence
}

// Explanation says why a job is where it is or why it waits, and what would change that.
type Explanation struct {
	Group, Job string
	Replicas   []Placement // each with its reason
	Candidates []Candidate // the best first
	Changes    []string    // sentences: what would change it
}

// Candidate is a worker as a place for one more replica of a job.
type Candidate struct {
	Worker   string
	Fits     bool
	Score    float64 // the share of its capacity that is free; the greatest that fits gets the next
	Free     task.Units
	Capacity task.Units
	Reason   Reason
}

// WhatIf is a change that is only thought through.
type WhatIf struct {
	Remove   []string    // workers that die
	Drain    []string    // workers that are drained
	Shed     []ToShed    // workers that are to shed a part of their capacity
	Add      []NewSeats  // workers that join
	Replicas int         // of each job; 0 = as it is
	Jobs     *[]task.Job // the whole list; nil = as it is
}

// ToShed is how much of a worker's capacity is to be free.
type ToShed struct {
	Worker string
	Shed   task.Units
}

// NewSeats are equal workers that might join.
type NewSeats struct {
	Capacity task.Units
	Labels   map[string]string
	Zone     string
	Count    int
}

// Planned answers a WhatIf: what would come of it in the end, all budgets of a round spent as often
// as needed.
type Planned struct {
	Start, Stop []Placement // Stop: with the worker that it leaves
	Pending     []Placement
	Stay        []Placement // what is to leave its worker and has no other place
	Moves       int         // of Start, those whose predecessors would go on until they run
	Rounds      int         // that it would take
	Before      map[string]float64
	After       map[string]float64
	Budget      JobBudget
}
