// Package scheduler is the room of what a node does once per beat: it keeps its membership, shares
// out keys with the other nodes, checks on them, and does what one node must do for all. No node is
// special; they meet in the store alone.
//
// # Leases
//
// All of it stands in one table of leases, and each beat costs a node one statement: it renews the
// node's membership, and brings back who holds what. Package lease says what holding is and when it
// ends.
//
//	node/NAME        membership: what the node says of itself, what it found of the others
//	claim/KIND/KEY   the node that looks after a key; its value says when the key moved by choice last
//	chore/beat       the node that does the chores in this beat
//	chore/told       what people have been told already
//	chore/drain      who decides about a drain at this moment
//	drain/NAME       the node is to take nothing new
//	giveback/KIND/KEY  the owner of the key is to give it back
//
// A holder is one start of a node (NAME@START), so a restarted node takes nothing of its
// predecessor's before that is certainly dead: its lease has expired, or its guard (Config.Guard)
// is free at the place that the membership names. Then it ends the predecessor's leases by their
// tokens and frees what they held, so that a late predecessor is refused everywhere. Where the
// store admits one process at a time (Config.Alone) it takes everything at once.
//
// # A round
//
//	renew and read ──> check the store ──> claim and give back keys ──> check the others ──> the chores, if it is this node's turn
//
// Each round looks at everything again, so that whatever was lost, late or refused costs a beat and
// no more.
//
// Membership. Everything that the node holds in the store carries the token of its membership. A
// node that finds it ended by others has been taken for dead and must stop (store.ErrBroken). After
// an outage of the store it goes on with the same token if nobody ended it.
//
// Claims. A claim stands while its holder is a member, and is never renewed by itself. Package
// balance decides, from the rows alone, what this node claims and gives back. Whoever looks after a
// key (Kind.Look) has two contexts: its own ends when the key is to be given back, Claim.Held only
// when the holding ends. The key is free for others when Look has returned; a node cut off from the
// store ends Held before anybody else can have the key.
//
//	       claimed                  to be given back, or node stops             Look returns
//	free ──────────> looked after ────────────────────────────────> finishing ──────────────> free
//	                   │      ^                                         │
//	membership not     │      │ renewed after all: Look is called again │ not renewed in time
//	renewed in time    └────> lapsed <──────────────────────────────────┘
//	                            └─ another has it: lost
//
// Checks. Each beat the node asks every other whether it serves. A node that a majority of the
// other fit ones missed three times in a row is unreachable: it claims nothing and gives its keys
// back. One that reaches fewer than half of the others suspects itself and records nothing. The
// others are those whose lease lives, and what is missed is a start of a node, not its name: the
// next start begins without blame. The opinion of peers never ends a lease.
//
// Chores. Freeing what the dead held, pruning, telling people what changed: one node does them per
// beat, the idlest first, and beside its beats, since a write may take as long as the store takes
// and no renewal may wait for that. What comes late by it judges nobody. They are level-triggered
// and may be done twice. People are told first, and that they were is written down afterwards; an
// event has a key made of the facts alone, so that whoever tells it again adds nothing.
//
// Outages. A renewal that finds no way to the store, or no answer within a third of a lease, begins
// one: from then on Reach says so, until a renewal is answered. A slow store is none.
//
// Grace. A node takes nobody for dead, neither for claims nor for chores, before it has heard the
// store for a whole lease time without a gap and without a jump of its clock. So nothing moves when
// the store was away, or when all start together.
//
// # Parts
//
// The Scheduler is made of parts around one core, which has the leases, the lock, and what the last
// round saw. A part has a field for each other part that it needs; none needs itself by way of
// others.
//
//	joining    this node becomes a member (join.go); needs renewals
//	renewals   and stays one: what it says of itself, outages; needs shares and probes
//	probes     the checks of the others (checks.go)
//	holdings   keys that this node holds, and whoever looks after each (hold.go)
//	shares     which keys there are, and among whom they are shared out; needs holdings
//	claims     what this node tries for and gives back; needs shares, holdings, probes and decisions
//	decisions  what people decide: drains, assignments, settings (hand.go, drain.go); needs shares
//	chores     what one node does for all; needs shares, news and pruner
//	news       what people are told (tell.go)
//	pruner     deletes what is kept no longer, beside the beats
//
// The Scheduler itself runs the rounds, which call all of them, and checks the store.
//
// # Cost
//
// An idle node writes one row a beat, however many keys it has. Five idle nodes make fewer than ten
// statements a second in all, and when one of ten with 10,000 keys dies, the others need fewer than
// ten each until every key has an owner again: one acquires them all.
package scheduler
