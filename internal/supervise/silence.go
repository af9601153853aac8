package supervise

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A worker stops its jobs by itself when no beat of it was answered for a time that answers tell
// it: four fifths of its groups' shortest silence. Nobody may take it for dead before that. So its
// seat says how long it may go at most: a longer time is written there before any answer tells it,
// and a shorter one only when no answer has told the longer one for as long as that lasts.

// silences are the limits of the groups that a worker serves.
type silences struct {
	worker time.Duration // the shortest of their Silence
	job    time.Duration // the shortest of their JobSilence; 0 = none has any
}

// silences are those of the named groups. What is not known of is as by default.
func (b *ClusterCache) silences(groups []string) (s silences) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range groups {
		g, known := b.groups[name]
		if !known {
			continue
		}
		silence := cmp.Or(g.Silence, limits.DefaultSilence)
		if s.worker == 0 || silence < s.worker {
			s.worker = silence
		}
		if g.JobSilence > 0 && (s.job == 0 || g.JobSilence < s.job) {
			s.job = g.JobSilence
		}
	}
	s.worker = cmp.Or(s.worker, limits.DefaultSilence)
	return s
}

// silenceOf is how long the worker of a seat may go without an answered beat before it has stopped
// its jobs by itself.
func silenceOf(seat *store.Seat) time.Duration {
	if seat == nil {
		return limits.DefaultSilence
	}
	return cmp.Or(seat.Silence, limits.DefaultSilence)
}

// promise is what answers have told a worker about its silence.
type promise struct {
	told  time.Duration // by the last one; 0 = there was none since its session was known
	since time.Time     // since then none told more than that
}

// tell is what an answer tells: what its groups want, but no more than its seat says.
func (p *promise) tell(want, seat time.Duration, now time.Time) time.Duration {
	told := min(want, seat)
	if p.told == 0 || told < p.told {
		p.since = now
	}
	p.told = told
	return told
}

// next is what the seat is to say.
func (p *promise) next(want, seat time.Duration, now time.Time) time.Duration {
	if want < seat && (p.told == 0 || p.told > want || now.Sub(p.since) < seat) {
		return seat
	}
	return want
}

// Patience says how long a worker that serves groups may go unheard before it has stopped its jobs
// by itself, and how much time at most may lie between its beats.
func (r *Sessions) Patience(worker string) (silence, beat time.Duration) {
	r.mu.Lock()
	s := r.entries[worker]
	var groups []string
	if s != nil {
		groups = s.beat.Groups
	}
	r.mu.Unlock()
	want := r.cache.silences(groups)
	silence = silenceOf(r.cache.seat(worker))
	shortest := min(want.worker, silence)
	if want.job > 0 {
		shortest = min(shortest, want.job)
	}
	return silence, shortest / 3
}

// sign is what is known of the signs of a run's handler.
type sign struct {
	alive time.Time     // the last one, as its worker says: by its own clock
	quiet time.Duration // for which beats said the same
}

// longestStep is how much of the time between two beats counts as time in which a handler was
// quiet. A longer one says that beats were lost, or that this node or the worker was stopped: they
// are to be heard again before anybody is judged.
const longestStep = 10 * time.Second

// listen takes in what a beat that came so long after the last one says of a run, and answers for
// how long its handler has given no sign. Of a worker that does not tell nothing is known.
func (s sign) listen(alive time.Time, step time.Duration) sign {
	if alive.IsZero() || !alive.Equal(s.alive) {
		return sign{alive: alive}
	}
	s.quiet += min(max(step, 0), longestStep)
	return s
}

// hearSigns takes in what a beat says of the signs of its runs' handlers. Only rounds do.
func (g *visit) hearSigns() {
	e := g.entry
	step := g.at.Sub(e.heard)
	if e.heard.IsZero() {
		step = 0
	}
	e.heard = g.at
	signs := map[string]sign{}
	for i := range g.beat.Jobs {
		if run := &g.beat.Jobs[i]; !run.Alive.IsZero() {
			signs[run.Token] = e.signs[run.Token].listen(run.Alive, step)
		}
	}
	e.signs = signs
}

// stands is the state of a run by what its worker says of it and by the signs of its handler: one
// that gave none for longer than its group allows has failed.
func (g *visit) stands(
	run *task.Run, limit time.Duration,
) (state task.JobState, note string, quiet bool) {
	state = stateOf(run)
	if limit > 0 && state == task.JobRunning && g.entry.signs[run.Token].quiet >= limit {
		return task.JobFailed, fmt.Sprintf("its handler gave no sign for %v", limit), true
	}
	return state, run.Error, false
}
