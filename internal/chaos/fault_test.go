//go:build chaos && unix

package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fault is something that goes wrong for a while.
type fault struct {
	name       string
	of         []string // whom it befalls: two at a time befall different ones
	lasts      time.Duration
	begin, end func()
}

// between draws a duration.
func between(luck *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(luck.Int64N(int64(to-from)))
}

// spell is how long somebody who is believed alive for a limit is away: sometimes not for so long,
// sometimes longer.
func spell(luck *rand.Rand, limit time.Duration) time.Duration {
	if luck.IntN(2) == 0 {
		return between(luck, 200*time.Millisecond, limit/2)
	}
	return between(luck, limit+time.Second, 2*limit)
}

// kind is one of faults. What is drawn of it hangs on luck alone, so that the same seed draws the
// same faults.
type kind func(w *world, luck *rand.Rand) fault

// draws are all kinds of faults.
var draws = []kind{
	(*world).killNode, (*world).stopNode, (*world).killWorker, (*world).stopWorker,
	(*world).killPrimary, (*world).stopPrimary, (*world).killStandby, (*world).stopStandby,
	(*world).failOver, (*world).desert,
	(*world).spoilLink, (*world).spoilLink, (*world).spoilFront,
}

func (w *world) killNode(luck *rand.Rand) fault {
	n := w.nodes[luck.IntN(len(w.nodes))]
	who := "node " + n.name
	return fault{who + " is killed", []string{who}, spell(luck, nodeLease), func() {
		w.die(n)
	}, n.up}
}

// die kills a node, and writes it down.
func (w *world) die(n *node) {
	if err := w.journal.write(line{Deed: died, At: nowMicros(), Who: n.name}); err != nil {
		w.t.Error(err)
	}
	n.kill()
}

func (w *world) stopNode(luck *rand.Rand) fault {
	n := w.nodes[luck.IntN(len(w.nodes))]
	return stopped("node "+n.name, n.daemon, spell(luck, nodeLease))
}

func stopped(name string, d *daemon, lasts time.Duration) fault {
	return fault{name + " is stopped", []string{name}, lasts, func() {
		d.signal(syscall.SIGSTOP)
	}, func() { d.signal(syscall.SIGCONT) }}
}

func (w *world) killWorker(luck *rand.Rand) fault {
	d := w.workers[luck.IntN(len(w.workers))]
	who := "worker " + d.name
	return fault{who + " is killed", []string{who}, spell(luck, silence), d.kill, d.up}
}

func (w *world) stopWorker(luck *rand.Rand) fault {
	d := w.workers[luck.IntN(len(w.workers))]
	return stopped("worker "+d.name, d, spell(luck, silence))
}

var bothServers = []string{"primary", "standby"}

func (w *world) killPrimary(luck *rand.Rand) fault {
	return fault{
		"the primary is killed", []string{"primary"}, spell(luck, nodeLease),
		func() { w.db.primary().Kill9(w.t) }, func() { w.db.primary().Restart(w.t) },
	}
}

func (w *world) stopPrimary(luck *rand.Rand) fault {
	return fault{
		"the primary is stopped", []string{"primary"}, spell(luck, nodeLease),
		func() { w.db.primary().Pause(w.t) }, func() { w.db.primary().Resume(w.t) },
	}
}

func (w *world) killStandby(luck *rand.Rand) fault {
	return fault{
		"the standby is killed", []string{"standby"}, spell(luck, nodeLease),
		func() { w.db.standby().Kill9(w.t) }, func() { w.db.standby().Restart(w.t) },
	}
}

func (w *world) stopStandby(luck *rand.Rand) fault {
	return fault{
		"the standby is stopped", []string{"standby"}, spell(luck, nodeLease),
		func() { w.db.standby().Pause(w.t) }, func() { w.db.standby().Resume(w.t) },
	}
}

// failOver takes the primary away, for good.
func (w *world) failOver(luck *rand.Rand) fault {
	f := fault{name: "the database fails over from a primary that was killed", of: bothServers}
	f.lasts = between(luck, 200*time.Millisecond, 3*time.Second)
	f.begin = func() { w.db.primary().Kill9(w.t) }
	if luck.IntN(2) == 0 {
		f.name = "the database fails over from a primary that was stopped"
		f.begin = func() { w.db.primary().Pause(w.t) }
	}
	f.end = func() {
		w.db.failover()
		w.point()
	}
	return f
}

// desert is a failover of the worst kind: the standby is gone for a while, somebody cancels the
// waits for it, so that commits stand on the primary alone, and then the primary dies. Whatever was
// acknowledged meanwhile is lost.
func (w *world) desert(luck *rand.Rand) fault {
	f := fault{
		name: "waits for the standby are cancelled, and the database fails over", of: bothServers,
	}
	f.lasts = between(luck, time.Second, 3*time.Second)
	f.begin = func() { w.db.standby().Kill9(w.t) }
	f.end = func() {
		for range 10 {
			w.db.primary().Exec(w.t,
				"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			time.Sleep(100 * time.Millisecond)
		}
		w.db.primary().Kill9(w.t)
		w.db.standby().Restart(w.t)
		w.db.failover()
		w.point()
	}
	return f
}

// badWeather draws what becomes of a line.
func badWeather(luck *rand.Rand) (string, weather) {
	switch luck.IntN(5) {
	case 0:
		return "is cut", weather{cut: true}
	case 1:
		return "holds everything", weather{holdUp: true, holdDown: true}
	case 2:
		return "holds what is asked", weather{holdUp: true}
	case 3:
		return "holds what is answered", weather{holdDown: true}
	default:
		slow := between(luck, 20*time.Millisecond, 300*time.Millisecond)
		return fmt.Sprintf("is slow by %v", slow.Round(time.Millisecond)), weather{slow: slow}
	}
}

// spoilLink spoils the line between a node and the database, whichever server is the primary.
func (w *world) spoilLink(luck *rand.Rand) fault {
	n := w.nodes[luck.IntN(len(w.nodes))]
	what, bad := badWeather(luck)
	set := func(now weather) func() {
		return func() {
			for _, l := range n.links {
				l.set(now)
			}
		}
	}
	return fault{
		"the line from " + n.name + " to the database " + what, []string{"link " + n.name},
		spell(luck, nodeLease),
		set(bad), set(weather{}),
	}
}

// spoilFront spoils the line on which other nodes, and half of the workers, reach a node.
func (w *world) spoilFront(luck *rand.Rand) fault {
	n := w.nodes[luck.IntN(len(w.nodes))]
	what, bad := badWeather(luck)
	return fault{
		"the line from others to " + n.name + " " + what, []string{"front " + n.name},
		spell(luck, nodeLease),
		func() { n.front.set(bad) }, func() { n.front.set(weather{}) },
	}
}

// pair draws two faults of some kinds that befall different ones.
func (w *world) pair(kinds []kind) (one, two fault) {
	draw := func() fault { return kinds[w.luck.IntN(len(kinds))](w, w.luck) }
	one, two = draw(), draw()
	for slices.ContainsFunc(two.of, func(who string) bool { return slices.Contains(one.of, who) }) {
		two = draw()
	}
	return one, two
}

// play lets faults happen, each so long after the one before, and returns when all are over.
func (w *world) play(apart time.Duration, faults ...fault) {
	type act struct {
		at time.Duration
		do func()
	}
	var acts []act
	for i, f := range faults {
		after := time.Duration(i) * apart
		w.say("after %v %s, for %v", after.Round(time.Millisecond), f.name,
			f.lasts.Round(time.Millisecond))
		acts = append(acts, act{after, f.begin}, act{after + f.lasts, f.end})
	}
	slices.SortStableFunc(acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	began := time.Now()
	for _, a := range acts {
		time.Sleep(time.Until(began.Add(a.at))) // real processes
		a.do()
	}
	w.faults += len(faults)
}

// A script hangs on its seed alone, and has all kinds of faults.
func TestSeedDrawsTheSamePairs(t *testing.T) {
	script := func(seed uint64) (names []string) {
		w := &world{luck: rand.New(rand.NewPCG(seed, 0))}
		for i := range 3 {
			w.nodes = append(w.nodes, &node{daemon: &daemon{name: string(rune('a' + i))}})
			w.workers = append(w.workers, &daemon{name: fmt.Sprintf("w%d", i)})
		}
		for range 200 {
			one, two := w.pair(draws)
			if slices.ContainsFunc(one.of, func(who string) bool {
				return slices.Contains(two.of, who)
			}) {
				t.Errorf("at the same time: %s, and %s", one.name, two.name)
			}
			names = append(names, fmt.Sprint(one.name, one.lasts, two.name, two.lasts))
		}
		return names
	}
	first := script(1)
	if !slices.Equal(first, script(1)) || slices.Equal(first, script(2)) {
		t.Error("the seed does not make the script")
	}
	for _, kind := range []string{
		"node a is killed", "node b is stopped", "worker w1 is killed", "worker w2 is stopped",
		"primary is killed", "primary is stopped",
		"standby is killed", "standby is stopped", "primary that was killed",
		"primary that was stopped", "are cancelled", "others to c is cut",
		"a to the database is cut", "holds everything", "holds what is asked",
		"holds what is answered", "is slow by",
	} {
		if !slices.ContainsFunc(first, func(name string) bool {
			return strings.Contains(name, kind)
		}) {
			t.Errorf("in 200 pairs never: %s", kind)
		}
	}
}
