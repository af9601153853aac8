package place

import (
	"fmt"
	"strings"
)

// Code is why something is done or not, in one word for programs.
type Code string

// Why a replica is stopped.
const (
	Removed Code = "removed" // its job is not listed
	Surplus Code = "surplus" // its job has fewer replicas
	Gone    Code = "gone"    // its worker is not there
	// it runs elsewhere too, or another replica of the job runs on this worker
	Double Code = "double"
	// its worker has more than its capacity, or more replicas than it may have
	Overloaded Code = "overloaded"
	Yields     Code = "yields" // it gives its room to a job that has fewer replicas
)

// Why a replica moves.
const (
	MakesRoom  Code = "makes-room" // a replica that waits, or is to leave its worker, gets its room
	Penalised  Code = "penalised"  // its job failed on that worker
	Unselected Code = "unselected" // its worker lacks a label, or has no capacity
	Drained    Code = "drained"    // its worker is draining
	Shed       Code = "shed"       // its worker is to have more of its capacity free
	ZoneShared Code = "zone"       // another replica of the job is in the same zone
	Balance    Code = "balance"    // its worker has a greater share of its capacity in use
)

// Why a replica waits, or stays where it is not to be.
const (
	NoWorkers  Code = "no-workers" // there are none
	Unmatched  Code = "selector"   // no worker has the labels
	Unopen     Code = "closed"     // those that have them are draining or without capacity
	TooFew     Code = "replicas"   // each worker left has another replica of the job
	Avoided    Code = "penalty"    // on each worker left the job failed lately
	NoCapacity Code = "capacity"   // no worker left has room
	NewLimit   Code = "new-limit"  // each worker left gets no more in this plan
	MoveLimit  Code = "move-limit" // no more is moved in this plan
	// the room is not free yet: something there is being ended or moved
	Ending Code = "ending"
)

// Reason is why something is done or not, for programs and for people. Numbers that say nothing
// are 0.
type Reason struct {
	Code  Code
	Load  Load   // of the replica
	Limit int    // of starts or moves, with NewLimit and MoveLimit
	Job   string // with MakesRoom and Yields: which gets the room
	On    string // with Ending: where

	// Workers, of which each is counted once below, by the first that holds; the rest are at their
	// limit or have room.
	Workers int
	Lacking int  // without a label of the selector
	Closed  int  // draining, or without capacity
	Same    int  // has another replica of the job, or one that is being ended
	Failed  int  // the job failed there
	Crowded int  // has as many replicas as it may have
	Full    int  // has less room than Load
	Room    Load // the greatest room of those that are full

	// With Balance: the shares of capacity in use before the move, from 0 to 1.
	FromShare, ToShare float64
}

// String is the reason as an English sentence without its end.
func (r Reason) String() string {
	switch r.Code {
	case Removed:
		return "the job is not listed any more"
	case Surplus:
		return "the job has fewer replicas"
	case Gone:
		return "the worker is not there any more"
	case Double:
		return "it runs elsewhere, or another replica of the job runs here"
	case Overloaded:
		return "the worker has more than it may have"
	case Yields:
		return fmt.Sprintf("its room goes to %s, which has fewer replicas", r.Job)
	case MakesRoom:
		return fmt.Sprintf("its room goes to %s, which cannot run elsewhere", r.Job)
	case Penalised:
		return "the job failed on this worker"
	case Unselected:
		return "the worker lacks a label of the selector, or has no capacity"
	case Drained:
		return "the worker is draining"
	case Shed:
		return "the worker is to have more of its capacity free"
	case ZoneShared:
		return "another replica of the job is in the same zone"
	case Balance:
		return fmt.Sprintf("the worker has %s of its capacity in use, the other %s",
			percent(r.FromShare), percent(r.ToShare))
	case NewLimit:
		return fmt.Sprintf(
			"each worker that could take it gets %d more in this plan already: it comes with a next one",
			r.Limit,
		)
	case MoveLimit:
		if r.Limit == 0 {
			return "another replica would have to move, and none may be moved"
		}
		return fmt.Sprintf("at most %d replicas are moved in one plan: it comes with a next one",
			r.Limit)
	case Ending:
		return fmt.Sprintf("it waits for room on %s, where something is still to end", r.On)
	}
	return r.refusal()
}

// refusal says why no worker takes a replica.
func (r Reason) refusal() string {
	var head string
	switch r.Code {
	case NoWorkers:
		return "there is no worker"
	case Unmatched:
		return fmt.Sprintf("the selector matches none of %s", count(r.Workers, "worker"))
	case Unopen:
		head = "every worker that the selector matches is draining or without capacity"
	case TooFew:
		head = "every worker that could take it has another replica of the job"
	case Avoided:
		head = "the job failed lately on every worker that could take it"
	case NoCapacity:
		head = fmt.Sprintf("no worker has room for a load of %v", r.Load)
		if r.Full == 0 {
			head = "every worker that could take it has as many replicas as it may have"
		}
	default:
		return string(r.Code)
	}
	return head + ": " + r.census()
}

// census counts the workers by what keeps the replica off them.
func (r Reason) census() string {
	var parts []string
	part := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	part(r.Lacking, "lacks a label", "lack a label")
	part(r.Closed, "is draining or has no capacity", "are draining or have no capacity")
	part(r.Same, "has another replica of the job", "have another replica of the job")
	part(r.Failed, "is avoided because the job failed there",
		"are avoided because the job failed there")
	part(r.Crowded, "has as many replicas as it may have", "have as many replicas as they may have")
	part(r.Full, fmt.Sprintf("has room for %v", r.Room),
		fmt.Sprintf("have room for at most %v", r.Room))
	return fmt.Sprintf("of %s %s", count(r.Workers, "worker"), strings.Join(parts, ", "))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
