package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// hint tells the other nodes what one did to the store, as a database does that notifies. Hints may
// be lost, late or doubled. What they say is a queue that may have ready tasks ("": any), or the
// tasks that were touched.
func (d *storeDoor) hint(queue string, ids ...task.ID) {
	w := d.world
	if !w.hints {
		return
	}
	for _, n := range w.nodes {
		to := n.process.Load()
		if to == d.from {
			continue
		}
		w.bus.post(&message{from: w.store, to: to, text: fmt.Sprintf("hint %q %v", queue, ids),
			doubles: true, arrive: func() {
				if n := to.serves.Load(); n != nil {
					w.sometimes("a hint was heard")
					n.Hear(queue, ids)
				}
			}})
	}
}

// tell sends a hint to the other nodes.
func (w *world) tell(from *process, text string, hear func(*peer)) {
	if !w.hints {
		return
	}
	for _, n := range w.nodes {
		to := n.process.Load()
		if to.machine == from.machine {
			continue
		}
		w.bus.post(&message{from: w.store, to: to, text: text, doubles: true, arrive: func() {
			if n := to.serves.Load(); n != nil {
				hear(n)
			}
		}})
	}
}

// hintSubmitted tells of spans that are free, and who had better take them.
func (d *storeDoor) hintSubmitted(got store.Submitted, shares []store.Share) {
	told := map[string]bool{}
	for _, sp := range got.Spans {
		if sp.Holder != (store.Holder{}) || sp.Due > got.Now || told[sp.Queue] {
			continue
		}
		told[sp.Queue] = true
		o := store.Offer{Queue: sp.Queue, Rank: sp.Rank}
		for _, s := range shares {
			if s.Queue == o.Queue {
				o.Shares = append(o.Shares, s)
			}
		}
		d.world.tell(d.from, fmt.Sprintf("offer %+v", o), func(n *peer) {
			d.world.sometimes("a hint was heard")
			if len(o.Shares) > 0 {
				d.world.sometimes("free tasks were shared out to other nodes")
			}
			n.HearOffer(o)
		})
	}
}

// announce tells the other nodes what room there is at one. What a dead process says is not heard:
// its goroutines end in any order.
func (w *world) announce(from *process, queues map[string]int) {
	if from.dead() {
		return
	}
	w.tell(from, fmt.Sprintf("room at %v %v", from, queues), func(n *peer) {
		n.HearRoom(from.name, queues)
	})
}

// holders are the nodes that hold tasks, in the order of ids; "" = none.
func (d *storeDoor) holders(ids []task.ID) []string {
	names := make([]string, len(ids))
	stood, err := d.world.facts.Stand(context.Background(), ids)
	if err != nil {
		d.world.breach("read who holds %v: %v", ids, err)
		return names
	}
	for i := range stood {
		names[i] = stood[i].Owner.Holder.Node
	}
	return names
}

// hintTouched tells of tasks that others hold.
func (d *storeDoor) hintTouched(ids []task.ID, holders []string) {
	var others []task.ID
	for i, id := range ids {
		if holders[i] != "" && holders[i] != d.from.name && !slices.Contains(others, id) {
			others = append(others, id)
		}
	}
	if len(others) > 0 {
		d.hint("nobody's", others...)
	}
}

// hintWanted tells other nodes of tasks of theirs that this one wants to edit.
func (d *storeDoor) hintWanted(acted []store.Acted) {
	for _, a := range acted {
		if a.Held == "" {
			continue
		}
		d.world.tell(d.from, fmt.Sprintf("%v of %s is wanted", a.ID, a.Held), func(n *peer) {
			d.world.sometimes("a task was wanted that another node held")
			n.HearWanted([]task.ID{a.ID})
		})
	}
}

// peerDoor is how a node reaches the others by themselves.
type peerDoor struct {
	world *world
	from  *process
}

// Probe asks a node whether it serves. A machine whose process is dead refuses.
func (d peerDoor) Probe(ctx context.Context, _, address string) error {
	for _, n := range d.world.nodes {
		if n.name == address {
			_, err := call[nothing]{
				from: d.from, to: n.process.Load(), text: "probe", patience: beat, inline: true,
				serve: func(context.Context) (nothing, error) { return nothing{}, nil },
			}.over(ctx, d.world.bus)
			return err
		}
	}
	return errRefused
}
