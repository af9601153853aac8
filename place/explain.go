package place

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrNoJob is what Explain says of a job that is not listed.
var ErrNoJob = errors.New("no such job")

// Explanation is where a job's replicas are and why, or why they wait.
type Explanation struct {
	Job        string
	Load       Load
	Replicas   []Situation // those that are wanted, by number; then what runs beside them
	Candidates []Candidate // every worker, the one that would get the next replica first
	Changes    []string    // what would let a waiting replica run, each by itself
}

// Situation is how it stands with one replica.
type Situation struct {
	Replica int
	Worker  string // where it runs, or empty
	To      string // where it is started or moved to by the next plan, or empty
	Doing   Doing
	Reason  Reason // of all but those that run and start
	Text    string // one sentence
}

// Doing is what the next plan does with a replica.
type Doing string

// What the next plan does with a replica.
const (
	Runs   Doing = "runs"
	Starts Doing = "starts"
	Moves  Doing = "moves"
	Stops  Doing = "stops"
	Ends   Doing = "ends"  // it is being ended already
	Stays  Doing = "stays" // it is to leave and cannot yet
	Waits  Doing = "waits"
)

// Candidate is a worker as a place for one more replica of a job, with what the next plan does
// done.
type Candidate struct {
	Worker  string
	Room    Load
	Share   float64 // of its capacity that is in use, from 0 to 1
	With    float64 // the same with the replica; the smallest is chosen first
	Verdict Code    // what keeps the replica off it, or empty
	Text    string
}

// What keeps a replica off a worker, besides Unmatched, Drained, Avoided, NoCapacity and NewLimit.
const (
	Occupied  Code = "occupied" // it has a replica of the job, or one that is being ended
	Powerless Code = "zero"     // its capacity is 0
)

// Explain says where a job's replicas are and why, or why they wait, as of the next plan. The error
// is ErrNoJob for a job that is not listed.
func Explain(s State, p Policy, job string) (e Explanation, err error) {
	defer ended(&err)
	b, err := decide(s, p)
	if err != nil {
		return Explanation{}, err
	}
	j, listed := slices.BinarySearchFunc(b.jobs, job, func(j Job, name string) int {
		return strings.Compare(j.Name, name)
	})
	if !listed {
		return Explanation{}, fmt.Errorf("explain %q: %w", job, ErrNoJob)
	}
	e = Explanation{Job: job, Load: b.jobs[j].Load}
	plan := (&planning{board: b}).plan()
	e.situations(b, int32(j), s.Current, plan)
	e.candidates(b, int32(j))
	e.changes(b, p, plan)
	return e, nil
}

// situations says how it stands with each replica.
func (e *Explanation) situations(b *board, j int32, current []Replica, plan Plan) {
	add := func(s Situation) { e.Replicas = append(e.Replicas, s) }
	for _, x := range of(plan.Start, func(x Start) string { return x.Job }, e.Job) {
		text := "starts on " + x.Worker + ", which has the smallest share of its capacity in use"
		add(Situation{Replica: x.Replica, To: x.Worker, Doing: Starts, Text: text})
	}
	for _, x := range of(plan.Move, func(x Move) string { return x.Job }, e.Job) {
		add(Situation{x.Replica, x.From, x.To, Moves, x.Reason,
			fmt.Sprintf("moves from %s to %s: %v", x.From, x.To, x.Reason)})
	}
	for _, x := range of(plan.Pending, func(x Pending) string { return x.Job }, e.Job) {
		add(Situation{x.Replica, "", "", Waits, x.Reason, "waits: " + x.Reason.String()})
	}
	for _, x := range of(plan.Stop, func(x Stop) string { return x.Job }, e.Job) {
		add(Situation{x.Replica, x.Worker, "", Stops, x.Reason,
			fmt.Sprintf("is stopped on %s: %v", x.Worker, x.Reason)})
	}
	for _, x := range of(plan.Stay, func(x Stay) string { return x.Job }, e.Job) {
		text := fmt.Sprintf("is to leave %s, as %v, and cannot yet: %v", x.Worker,
			Reason{Code: x.Cause}, x.Reason)
		add(Situation{x.Replica, x.Worker, "", Stays, x.Reason, text})
	}
	said := map[[2]any]bool{}
	for _, s := range e.Replicas {
		said[[2]any{s.Replica, s.Worker}] = true
	}
	for _, r := range of(current, func(r Replica) string { return r.Job }, e.Job) {
		if said[[2]any{r.Replica, r.Worker}] {
			continue
		}
		slot := b.first[j] + int32(r.Replica)
		if slot >= b.first[j] && slot < b.first[j+1] && b.home[slot] != none &&
			b.sites[b.home[slot]].Name == r.Worker {
			add(Situation{r.Replica, r.Worker, "", Runs, Reason{}, b.contentment(slot)})
		} else {
			add(Situation{r.Replica, r.Worker, "", Ends, Reason{Code: Ending, On: r.Worker},
				"is being ended on " + r.Worker})
		}
	}
	slices.SortStableFunc(e.Replicas, func(x, y Situation) int {
		return cmp.Or(cmp.Compare(x.Replica, y.Replica), strings.Compare(x.Worker, y.Worker))
	})
}

// of picks what is of one job out of a list.
func of[T any](list []T, name func(T) string, job string) (picked []T) {
	for _, x := range list {
		if name(x) == job {
			picked = append(picked, x)
		}
	}
	return picked
}

// contentment is why a slot stays where it is.
func (b *board) contentment(slot int32) string {
	w := b.home[slot]
	here := fmt.Sprintf("runs on %s, which has %s of its capacity in use", b.sites[w].Name,
		percent(b.share(w)))
	b.mark(slot)
	v := b.now.first(b.loadOf(slot), b.sharing(b.sites[w].zone))
	switch {
	case v == none:
		return here + "; no other worker could take it"
	case b.better(w, v, b.loadOf(slot)):
		here += fmt.Sprintf(", and moves when it is its turn: at most %d do in one plan", b.moves)
	}
	return fmt.Sprintf("%s; on %s it would be %s", here, b.sites[v].Name,
		percent(b.shareWith(v, slot)))
}

func (b *board) shareWith(w, slot int32) float64 {
	s := &b.sites[w]
	return float64(s.taken().plus(b.loadOf(slot))) / float64(max(s.Capacity, 1))
}

// candidates judges all workers as a place for one more replica.
func (e *Explanation) candidates(b *board, j int32) {
	slot := b.first[j]
	own := map[int32]bool{}
	for _, w := range b.own(slot) {
		own[w] = true
	}
	if w := b.home[slot]; w != none {
		own[w] = true
	}
	for w := range b.sites {
		s := &b.sites[w]
		room := max(s.keeps-s.taken().plus(s.held).plus(s.Passing), 0)
		c := Candidate{
			Worker: s.Name, Room: room, Share: b.share(int32(w)), With: b.shareWith(int32(w), slot),
		}
		switch {
		case s.lacks:
			c.Verdict, c.Text = Unmatched, "lacks a label of the selector"
		case s.Capacity == 0:
			c.Verdict, c.Text = Powerless, "has a capacity of 0"
		case s.closed == Drained:
			c.Verdict, c.Text = Drained, "is draining"
		case slices.Contains(b.bars[j], bar{int32(w), Avoided}):
			c.Verdict, c.Text = Avoided, "is avoided for now, because the job failed there"
		case s.crowded():
			c.Verdict = NoCapacity
			c.Text = fmt.Sprintf("has %d replicas, as many as it may have", s.count)
		case own[int32(w)]:
			c.Verdict, c.Text = Occupied, "has a replica of the job, or one that is being ended"
		case c.Room < e.Load:
			c.Verdict, c.Text = NoCapacity, fmt.Sprintf("has room for %v of %v", c.Room, e.Load)
		case b.now.free(int32(w)) < 0:
			c.Verdict = NewLimit
			c.Text = fmt.Sprintf("gets %d others in the next plan already", s.fresh)
		default:
			c.Text = fmt.Sprintf("could take it, and would have %s of its capacity in use",
				percent(c.With))
		}
		e.Candidates = append(e.Candidates, c)
	}
	slices.SortFunc(e.Candidates, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.With, y.With),
			strings.Compare(x.Worker, y.Worker))
	})
}

func rank(c Candidate) int {
	if c.Verdict == "" {
		return 0
	}
	return 1
}

// changes says what would let the waiting replicas run.
func (e *Explanation) changes(b *board, p Policy, plan Plan) {
	waiting := map[Code]Reason{}
	for _, s := range e.Replicas {
		if s.Doing == Waits || s.Doing == Stays {
			waiting[s.Reason.Code] = s.Reason
		}
	}
	for _, code := range slices.Sorted(maps.Keys(waiting)) {
		e.Changes = append(e.Changes, e.change(b, p, waiting[code])...)
	}
}

func (e *Explanation) change(b *board, p Policy, why Reason) []string {
	another := fmt.Sprintf("a further worker%s with room for %v", labelled(p.Selector), e.Load)
	switch why.Code {
	case NoWorkers, Unmatched:
		return []string{another}
	case Unopen:
		return []string{another, "an end of the drain of " + e.draining()}
	case TooFew:
		return []string{
			another, fmt.Sprintf("fewer replicas: %d of its workers are open", b.open()),
		}
	case Avoided:
		return []string{another, "the end of its penalty"}
	case NoCapacity:
		changes := []string{another}
		if why.Full > 0 {
			changes = append(changes,
				fmt.Sprintf("%v more capacity on a worker that has room for %v", e.Load-why.Room,
					why.Room))
		}
		if names := e.draining(); names != "" {
			changes = append(changes, "an end of the drain of "+names)
		}
		return changes
	case NewLimit, MoveLimit:
		if why.Limit == 0 {
			return []string{another, "leave to move replicas"}
		}
		return []string{"the next plan, without more ado"}
	case Ending:
		return []string{"the end of what is being ended on " + why.On + ", without more ado"}
	}
	return nil
}

// draining names the candidates that only their drain keeps away.
func (e *Explanation) draining() string {
	var names []string
	for _, c := range e.Candidates {
		if c.Verdict == Drained {
			names = append(names, c.Worker)
		}
	}
	if len(names) > 3 {
		names = append(names[:3], "others")
	}
	return strings.Join(names, ", ")
}

func labelled(selector map[string]string) string {
	if len(selector) == 0 {
		return ""
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		labels = append(labels, key+"="+selector[key])
	}
	return " labelled " + strings.Join(labels, ", ")
}

// open is how many sites can take something.
func (b *board) open() (n int) {
	for w := range b.sites {
		if b.sites[w].closed == "" {
			n++
		}
	}
	return n
}
