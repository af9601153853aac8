package place

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the stories do into testdata")

// TestStories replays testdata/*.txt: blocks of commands, a line ----, and what came of them. With
// -update the last part is written anew: read the difference.
//
//	policy replicas=2 moves=10 new=4 zones label.kind=x
//	workers 5 60 [used=… passing=… zone=… label.kind=x]   so many join, with this capacity; they are named w1, w2 …
//	jobs 100 [load=1 replicas=0]                          so many more are listed; they are named j001, j002 …
//	one 30                                                so many more are listed one by one, with a plan after each
//	put 1 20 w1                                           jobs j001 to j020 have a replica there, out of nowhere
//	plan                                                  one plan is carried out, and told
//	plans                                                 plans are carried out until one is empty, and their sums told
//	die w1 w2 · drain w1 · undrain w1 · resize w1 40      of workers
//	unlist j001 · fail j001 w1                            of jobs
//	lose j001 0                                           a replica is not there any more
//	explain j001 · budget
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			told := tell(t, string(written))
			if *update {
				if err := os.WriteFile(file, []byte(told), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if told != string(written) {
				t.Errorf("%s is told otherwise:\n%s", file, told)
			}
		})
	}
}

// story is a cluster in which all that is planned happens at once.
type story struct {
	State
	policy Policy
	out    strings.Builder
	made   int
}

// tell plays a story and returns it with what came of it.
func tell(t *testing.T, text string) string {
	var s story
	var told []string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		commands, _, played := strings.Cut(block, "\n----")
		if !played {
			told = append(told, block) // words between the blocks
			continue
		}
		s.out.Reset()
		for line := range strings.Lines(commands) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				if err := s.obey(strings.Fields(line)); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
		s.describe()
		told = append(told, commands+"\n----\n"+strings.TrimSuffix(s.out.String(), "\n"))
	}
	return strings.Join(told, "\n\n") + "\n"
}

func (s *story) obey(words []string) error {
	args := words[1:]
	switch words[0] {
	case "policy":
		return s.rule(args)
	case "workers":
		return s.join(args)
	case "jobs":
		return s.list(args, false)
	case "one":
		return s.list(args, true)
	case "put":
		return s.put(args)
	case "plan":
		_, err := s.carryOut(true)
		return err
	case "plans":
		return s.carryOutAll()
	case "die":
		s.Workers = slices.DeleteFunc(s.Workers, func(w Worker) bool {
			return slices.Contains(args, w.Name)
		})
	case "drain", "undrain", "resize":
		i := slices.IndexFunc(s.Workers, func(w Worker) bool { return w.Name == args[0] })
		if words[0] != "resize" {
			s.Workers[i].Draining = words[0] == "drain"
			return nil
		}
		return number(args[1], &s.Workers[i].Capacity)
	case "unlist":
		s.Jobs = slices.DeleteFunc(s.Jobs, func(j Job) bool {
			return slices.Contains(args, j.Name)
		})
	case "fail":
		s.Penalties = append(s.Penalties, Penalty{args[0], args[1]})
	case "lose":
		s.Current = slices.DeleteFunc(s.Current, func(r Replica) bool {
			return r.Job == args[0] && fmt.Sprint(r.Replica) == args[1]
		})
	case "explain":
		return s.explain(args[0])
	case "budget":
		b, err := FaultBudget(s.State, s.policy)
		fmt.Fprintf(&s.out, "budget: %d workers, at most %d; weakest %v; short by %d beyond that\n",
			b.Workers, b.AtMost, b.Weakest[:min(3, len(b.Weakest))], b.Short)
		return err
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func number(text string, into *Load) error {
	units, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	*into, err = ParseLoad(units)
	return err
}

func (s *story) rule(args []string) (err error) {
	s.policy = Policy{Selector: map[string]string{}}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch label, labelled := strings.CutPrefix(name, "label."); {
		case labelled:
			s.policy.Selector[label] = value
		case name == "zones":
			s.policy.Zones = true
		default:
			into := map[string]*int{
				"replicas": &s.policy.Replicas, "moves": &s.policy.Moves, "new": &s.policy.New,
			}[name]
			if *into, err = strconv.Atoi(value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *story) join(args []string) error {
	n, err := strconv.Atoi(args[0])
	for range n {
		s.made++
		w := Worker{Name: fmt.Sprintf("w%d", s.made), Labels: map[string]string{}}
		err = cmp.Or(err, number(args[1], &w.Capacity))
		for _, arg := range args[2:] {
			name, value, _ := strings.Cut(arg, "=")
			switch label, labelled := strings.CutPrefix(name, "label."); {
			case labelled:
				w.Labels[label] = value
			case name == "zone":
				w.Zone = value
			default:
				err = cmp.Or(err,
					number(value, map[string]*Load{"used": &w.Used, "passing": &w.Passing}[name]))
			}
		}
		s.Workers = append(s.Workers, w)
	}
	return err
}

func (s *story) list(args []string, oneByOne bool) error {
	n, err := strconv.Atoi(args[0])
	for range n {
		j := Job{Name: fmt.Sprintf("j%03d", len(s.Jobs)+1), Load: Unit}
		for _, arg := range args[1:] {
			if value, ok := strings.CutPrefix(arg, "load="); ok {
				err = cmp.Or(err, number(value, &j.Load))
			} else if value, ok := strings.CutPrefix(arg, "replicas="); ok {
				j.Replicas, err = strconv.Atoi(value)
			}
		}
		s.Jobs = append(s.Jobs, j)
		if oneByOne {
			_, planned := s.carryOut(false)
			err = cmp.Or(err, planned)
		}
	}
	return err
}

func (s *story) put(args []string) error {
	first, err1 := strconv.Atoi(args[0])
	last, err2 := strconv.Atoi(args[1])
	for i := first; i <= last; i++ {
		name := s.Jobs[i-1].Name
		replicas := of(s.Current, func(r Replica) string { return r.Job }, name)
		s.Current = append(s.Current, Replica{Job: name, Replica: len(replicas), Worker: args[2]})
	}
	return cmp.Or(err1, err2)
}

// carryOut makes a plan and carries it out.
func (s *story) carryOut(told bool) (Plan, error) {
	plan, err := Compute(s.State, s.policy)
	if told {
		s.report(plan)
	}
	s.State = applied(s.State, plan)
	return plan, err
}

func (s *story) carryOutAll() error {
	var all Plan
	for n := 0; ; n++ {
		plan, err := s.carryOut(false)
		if err != nil {
			return err
		}
		all.Start = append(all.Start, plan.Start...)
		all.Stop = append(all.Stop, plan.Stop...)
		all.Move = append(all.Move, plan.Move...)
		all.Pending, all.Stay = plan.Pending, plan.Stay
		if plan.Empty() {
			fmt.Fprintf(&s.out, "%d plans: ", n)
			s.report(all)
			return nil
		}
	}
}

// report sums up a plan.
func (s *story) report(p Plan) {
	fmt.Fprintf(&s.out, "starts %d, stops %d, moves %d, %d wait\n", len(p.Start), len(p.Stop),
		len(p.Move), len(p.Pending))
	counts := map[string]int{}
	var lines []string
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if counts[text]++; counts[text] == 1 {
			lines = append(lines, text)
		}
	}
	for _, x := range p.Stop {
		line("stopped, because %v", x.Reason)
	}
	for _, x := range p.Move {
		line("moved, because %v", x.Reason)
	}
	for _, x := range p.Pending {
		line("waits: %v", x.Reason)
	}
	for _, x := range p.Stay {
		line("stays (%s): %v", x.Cause, x.Reason)
	}
	for i, text := range lines {
		if i == 6 {
			fmt.Fprintf(&s.out, "  and %d more reasons\n", len(lines)-i)
			break
		}
		fmt.Fprintf(&s.out, "  %d %s\n", counts[text], text)
	}
}

// describe says what each worker has.
func (s *story) describe() {
	taken, n := map[string]Load{}, map[string]int{}
	on := map[[2]string]bool{}
	for _, r := range s.Current {
		i := slices.IndexFunc(s.Jobs, func(j Job) bool { return j.Name == r.Job })
		if i >= 0 {
			taken[r.Worker] += s.Jobs[i].Load
		}
		n[r.Worker]++
		if on[[2]string{r.Job, r.Worker}] {
			fmt.Fprintf(&s.out, "%s is on %s twice\n", r.Job, r.Worker)
		}
		on[[2]string{r.Job, r.Worker}] = true
	}
	for _, w := range s.Workers {
		fmt.Fprintf(&s.out, "%s %v/%v", w.Name, taken[w.Name]+w.Used+w.Passing, w.Capacity)
		if taken[w.Name] != Load(n[w.Name])*Unit {
			fmt.Fprintf(&s.out, " in %d", n[w.Name])
		}
		if w.Zone != "" {
			fmt.Fprintf(&s.out, " in zone %s", w.Zone)
		}
		if w.Draining {
			s.out.WriteString(" draining")
		}
		s.out.WriteString("\n")
	}
}

func (s *story) explain(job string) error {
	e, err := Explain(s.State, s.policy, job)
	for _, r := range e.Replicas {
		fmt.Fprintf(&s.out, "%s %d %s\n", job, r.Replica, r.Text)
	}
	for _, c := range e.Candidates {
		fmt.Fprintf(&s.out, "  %s %s\n", c.Worker, c.Text)
	}
	for _, c := range e.Changes {
		fmt.Fprintf(&s.out, "  what would change it: %s\n", c)
	}
	return err
}
