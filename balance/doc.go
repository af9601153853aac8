// Package balance decides who looks after what, and who gets the next piece of work. It is pure: no
// I/O, no clock, no luck; the same values give the same answer on every machine.
//
//	package main
//
//	import (
//		"fmt"
//
//		"github.com/rotahq/rota/balance"
//	)
//
//	func main() {
//		plan := balance.Claims(balance.Snapshot{ // what node a sees, once a beat
//			Self: "a",
//			Nodes: []balance.Node{
//				{Name: "a", Weight: 1, Working: true}, {Name: "b", Weight: 1, Working: true},
//			},
//			Keys:   []balance.Key{{Name: "mailbox/ann"}, {Name: "mailbox/bob"}},
//			Limits: balance.Limits{Claim: 10, Release: 10},
//		})
//		fmt.Println(plan.Share, plan.Claim)
//
//		var workers balance.Ranking[string]
//		workers.Add("v", 2)
//		workers.Add("w", 1)
//		fmt.Println(workers.Pick(1).Value) // the least loaded gets the next piece of work
//	}
//
// # Claims: who looks after which key
//
// K keys must each have exactly one owner among nodes that come and go, and no node is special.
// Every node, once a beat, takes a [Snapshot] of all nodes and leases and asks [Claims] what to do;
// leases make sure that two who want the same key do not both get it. With S nodes that work
// (draining ones do not), and n the number of deaths that a node is to be prepared for:
//
//	target  T = ⌈K / S⌉                    [Target]     what a node wants
//	cap     N = 1 + ⌊K / max(S − n, 1)⌋    [ClaimCap]   what a node accepts: any S − n caps add up to more than K
//	share   T or T − 1                     [Plan].Share the same rounded so that all shares add up to K
//
// An unowned key is meant for the node that stands first in the key's own order ([Rendezvous])
// among those below their share. From the same snapshot all nodes find the same one, so that they
// seldom try for the same key. Of its X keys a node
//
//	X < share       claims those meant for it
//	share ≤ X < N   claims what stayed unowned for a beat (but for keys given back by choice: they wait for those below)
//	N ≤ X           refuses
//	any X           claims what stayed unowned for three beats, whatever the cap says
//	X > share       gives some back while another is below ([RebalanceManual]: X > N), a few per beat, unless
//	                keys left unowned for a beat show that those below do not take what is there
//	not working     claims nothing and gives all back
//
// and what it failed to look after lately ([Key].Failed) it claims a beat later than anybody else
// would.
//
// X is counted from the snapshot each time and kept nowhere. Nothing is remembered from beat to
// beat but what the leases say, so a lost, doubled or late notification costs no more than a beat.
//
// What comes of it, however stale the snapshots (a property test plays it with deaths, joins,
// drains, pauses and refused writes):
//
//   - While a node works, no key is unowned longer than three beats and the time to the end of its
//     next round, a beat more where it failed itself.
//   - A key moves by choice at most once in a minute ([Key].Resting). From equal snapshots, as few
//     keys move as it takes.
//   - When nodes and keys stay as they are, all comes to rest: with RebalanceAuto every node owns
//     its share, so that equal nodes differ by at most one. A plan applied to all needs no further
//     plan.
//   - Any n nodes can die at the same moment and no cap need be broken; one after the other, all
//     but one. [FaultBudget] says how many can die now, and which would hurt most.
//
// Nodes of unequal [Node].Weight follow the same rules, with shares and caps by weight
// ([WeightedCap], [WeightedTarget]). The cap is that of SIA-TASK's scheduler; the order is
// rendezvous hashing (Thaler and Ravishankar 1998) with bounded loads (Mirrokni, Thorup and
// Zadimoghaddam 2018).
//
// # Chores: who does what only one must do
//
// A node waits [Wait] of its [Busyness.Score] before it tries for the lease of a chore, so the
// idlest gets it.
//
// # Ranking: who gets the next piece of work
//
// A [Ranking] keeps members in order of load, the smallest first, and among equal loads the one
// picked longest ago first. Both halves matter: by load alone, a sequence of short pieces, each
// finished before the next begins, would all go to the same member, and so would pieces of
// load 0. Joining counts as a pick, so a newcomer stands behind its equals and cannot push in front
// by leaving and coming back.
//
// Most free first is least load first, where load is what is free, negated: with [Ranking.Pick](1)
// each piece goes to the member with the most free slots, which then has one less. A member that
// cannot be reached is removed, and the next is tried. When the first one's load is 0, nobody has
// room.
//
// The ranking is an indexed binary heap (Williams 1964): exact, O(log n) to change, O(1) to look,
// and without allocation except for a new member or a larger ranking than ever before.
package balance
