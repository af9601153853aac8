package store

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

// WorkerDrain is a drain that somebody asks for.
type WorkerDrain struct {
	Worker string
	Drain
	Within time.Duration // when Drain.By is, counted from when it is done; 0 = Drain.By holds
	Force  bool          // even where replicas have no other place
	DryRun bool          // only say what it costs
}

// DrainPrice is what a drain of a worker costs.
type DrainPrice struct {
	GroupsPrice
	By      int64   // when what is left is taken from it, by the store's clock; 0 = never
	Tasks   int     // that it has in hands and is to finish
	Minutes float64 // until all that can leave has left, as far as is known
	Text    string  // a sentence for each group, and for queues that nobody else serves
}

// GroupsPrice is what a drain does to groups of jobs.
type GroupsPrice struct {
	Moves  int // replicas that move, on whichever workers
	Jobs   int // replicas that leave the worker
	Rounds int // that it takes, of the group that needs most
	Load   task.Units
	Stays  int // replicas that are to leave it and have no other place
	// Lacks is the room that they need, which one more worker could give: they are of as many jobs.
	Lacks  task.Units
	Breaks []string // groups of which some do, by name
	Text   string   // a sentence for each group that the worker serves
}

// Add says what would have to be added so that nothing lacks a place; "" = nothing.
func (p *GroupsPrice) Add() string {
	if p.Stays == 0 {
		return ""
	}
	return fmt.Sprintf("add a worker for them with room for %v", p.Lacks.Float())
}
