package balance

import (
	"math"
	"time"
)

// Part is how much of something is in use, in any unit. Max 0 means that there is none of it, and
// none of it is in use.
type Part struct{ Used, Max float64 }

// share is between 0 and 1. What cannot be told counts as all in use: a node that does not know how
// busy it is goes last.
func (p Part) share() float64 {
	switch share := p.Used / p.Max; {
	case p.Max == 0:
		return 0
	case !(p.Max > 0), math.IsNaN(share):
		return 1
	default:
		return min(max(share, 0), 1)
	}
}

// Busyness is what a node's score is made of, each part a share of its own maximum (the container's
// limits, where there are any): CPU time per second, executors in use, memory.
type Busyness struct{ CPU, Executors, Memory Part }

// Score is how busy a node is, 0 = idle … 100 = busy: 64 % CPU, 32 % executors, 4 % memory, rounded
// to two decimals.
func (b Busyness) Score() float64 {
	score := 64*b.CPU.share() + 32*b.Executors.share() + 4*b.Memory.share()
	return math.Round(score*100) / 100
}

// MaxWait is the longest wait before a chore.
const MaxWait = time.Second

// Wait is how long a node of this score waits before it tries for a chore, so that the idlest gets
// it: 10 ms × score, between nothing and [MaxWait]. A score that is no number waits longest.
func Wait(score float64) time.Duration {
	if !(score < 100) {
		return MaxWait
	}
	return time.Duration(math.Round(max(score, 0) * float64(10*time.Millisecond)))
}
