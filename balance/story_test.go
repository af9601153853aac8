package balance

import (
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
//	rebalance manual           above its cap only; before any other command (default auto)
//	limit claim=3 release=1    per beat
//	node A n=1 M=10 weight=2   a node joins (those that are left out have their defaults)
//	keys 9 [A]                 keys are created, without an owner or with
//	beat [A B]                 these nodes act, in this order (default all, by name), each on a fresh look; then a beat passes
//	rush [A B]                 the same, but all look before any acts
//	release A 5                a person makes A give back some keys
//	assign key/003 B           a person gives B a key, for as long as B works
//	unassign key/003           that is over
//	who key/003                says who owns it
//	fail A                     A can't look after a key of its own, and gives it back
//	free B                     the leases of B's keys end
//	stop B                     B acts no more
//	end B                      B's membership ends
//	drain B · undrain B        it stops, or begins again, to be a working node
//	budget                     the fault budget
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

// tell plays a story and returns it with what came of it.
func tell(t *testing.T, story string) string {
	w := newWorld(Limits{})
	var told []string
	for block := range strings.SplitSeq(strings.TrimSpace(story), "\n\n") {
		commands, _, played := strings.Cut(block, "\n----")
		if !played {
			told = append(told, block) // words between the blocks
			continue
		}
		var out strings.Builder
		for line := range strings.Lines(commands) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				if err := w.obey(strings.Fields(line), &out); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
		w.describe(&out)
		told = append(told, commands+"\n----\n"+strings.TrimSuffix(out.String(), "\n"))
	}
	return strings.Join(told, "\n\n") + "\n"
}

func (w *world) obey(words []string, out *strings.Builder) error {
	args := words[1:]
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	m := w.members[arg(0)]
	if slices.Contains([]string{"release", "fail", "stop", "drain", "undrain"}, words[0]) &&
		m == nil {
		return fmt.Errorf("no node %q", arg(0))
	}
	switch words[0] {
	case "rebalance":
		w.limits.Rebalance = map[string]Rebalance{"auto": RebalanceAuto,
			"manual": RebalanceManual}[arg(0)]
	case "limit":
		return settings(args, map[string]*int{
			"claim": &w.limits.Claim, "release": &w.limits.Release,
		})
	case "node":
		n := Node{Name: arg(0)}
		err := settings(args[1:], map[string]*int{
			"n": &n.Tolerance, "M": &n.Alarm, "weight": &n.Weight,
		})
		w.join(n)
		return err
	case "keys":
		n, err := strconv.Atoi(arg(0))
		w.create(n, arg(1))
		return err
	case "beat", "rush":
		w.beats(args, words[0] == "rush", out)
	case "release":
		n, err := strconv.Atoi(arg(1))
		for _, key := range w.owned(m.Name)[:n] {
			w.keys[key] = lease{since: w.now, given: true, rest: w.now + minute}
		}
		return err
	case "assign", "unassign":
		k, ok := w.keys[arg(0)]
		if !ok {
			return fmt.Errorf("no key %q", arg(0))
		}
		k.pinned = arg(1)
		w.keys[arg(0)] = k
	case "who":
		fmt.Fprintf(out, "%s is owned by %q\n", arg(0), w.keys[arg(0)].owner)
	case "fail":
		w.keys[w.owned(m.Name)[0]] = lease{since: w.now, given: true, failed: m.Name}
	case "free":
		w.free(arg(0))
	case "stop":
		m.acts = false
	case "end":
		delete(w.members, arg(0))
	case "drain", "undrain":
		m.Working = words[0] == "undrain"
	case "budget":
		b := FaultBudget(w.view(""))
		fmt.Fprintf(out,
			"budget: tolerance %d, %d at once, %d in turn, broken %v; after %v, short by %d\n",
			b.Tolerance, b.AtOnce, b.InTurn, b.Broken(), b.Worst[:min(b.AtOnce+1, len(b.Worst))],
			b.Short)
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

// settings reads NAME=NUMBER pairs.
func settings(args []string, into map[string]*int) (err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if into[name] == nil {
			return fmt.Errorf("no setting %q", name)
		}
		if *into[name], err = strconv.Atoi(value); err != nil {
			return err
		}
	}
	return nil
}

// beats lets nodes act and says what they did.
func (w *world) beats(names []string, rush bool, out *strings.Builder) {
	if len(names) == 0 {
		names = w.names()
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !w.members[name].acts
	})
	plans := map[string]Plan{}
	for _, name := range names {
		if plans[name] = Claims(w.view(name)); !rush {
			w.report(name, plans[name], out)
		}
	}
	for _, name := range names {
		if rush {
			w.report(name, plans[name], out)
		}
	}
	w.now += beat
}

// report applies a plan and says what came of it.
func (w *world) report(name string, p Plan, out *strings.Builder) {
	before := w.refused
	w.apply(name, w.members[name].Working, p)
	var did []string
	if n := len(p.Claim); n > 0 {
		did = append(did, fmt.Sprintf("claims %d", n))
	}
	if n := w.refused - before; n > 0 {
		did = append(did, fmt.Sprintf("%d of them in vain", n))
	}
	if n := len(p.Release); n > 0 {
		did = append(did, fmt.Sprintf("gives back %d", n))
	}
	for reason := RefusedIdle; reason <= RefusedFailed; reason++ {
		n := 0
		for _, r := range p.Refused {
			if r.Reason == reason {
				n++
			}
		}
		if n > 0 {
			did = append(did, fmt.Sprintf("refuses %d (%v)", n, reason))
		}
	}
	if p.Alarm != 0 {
		did = append(did, "alarm "+p.Alarm.String())
	}
	if len(did) > 0 {
		fmt.Fprintf(out, "%s %s\n", name, strings.Join(did, ", "))
	}
}

// describe lists the nodes as the document of the old scheduler does.
func (w *world) describe(out *strings.Builder) {
	working := 0
	for _, m := range w.members {
		if m.Working {
			working++
		}
	}
	for _, name := range w.names() {
		m := w.members[name]
		p := Claims(w.view(name))
		fmt.Fprintf(out, "%s={K=%d, S=%d, N=%d, X=%d, M=%d}", name, len(w.keys), working, p.Cap,
			p.Owned, m.Alarm)
		if m.alarmed {
			out.WriteString(" alarmed")
		}
		if !m.Working {
			out.WriteString(" drained")
		}
		if !m.acts {
			out.WriteString(" dead")
		}
		out.WriteString("\n")
	}
	if n := w.unowned(); n > 0 {
		fmt.Fprintf(out, "unowned: %d\n", n)
	}
}
