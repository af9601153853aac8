// Package supervise is the room of jobs: endless work, each job always on as many workers as its
// group has replicas.
//
// Nodes never call each other about jobs. What they must agree on stands in rows, each of them
// reads what changed with every beat, and whatever was lost on the way is found by the next look at
// everything.
//
// # Parts
//
// A [ClusterCache] is what stands in the store, as one node read it last: the groups, the workers
// that serve them (seats) and, of the groups that somebody here needs, the jobs and assignments (a
// group cache). A group's version grows with each change of anything about it, so a look costs one
// statement, and only what changed is read.
//
// [Sessions] are the workers that beat at this node. Each has a session: a small state machine,
// drawn in session.go. A round writes down who came, left or fell silent (seats), and what workers
// say of their jobs (observations): only differences, so that quiet workers cost nothing. A beat is
// answered from the cache: what the worker is to start and to end.
//
// A [Supervisor] is there for one group, at the node that holds the claim on it. Its rounds decide,
// purely, from one snapshot of the group (decide.go; package place says what goes where), and make
// one guarded write of it. It also reads the group's source.
//
// [Views] answer people, at any node.
//
//	worker ──beat──> Sessions ──seats, observations──> store <──assignments── Supervisor
//	       <─orders─        <───────── changes ─────       ──── changes ──>
//
// # An assignment
//
//	            Start, Move             its worker says so
//	(nothing) ─────────────> starting ─────────────────────> running <──> failed
//	                                                            │  ^
//	                        the successor starts elsewhere      │  │ the successor failed, or its worker died
//	                                                            v  │
//	                                                          moving
//	                                                            │ the successor runs
//	        its worker is gone, or says that it does not run    v
//	ended <──────────────────────────────────────────────── ending
//
// # What always holds
//
//   - A replica is on one worker, or, while it moves, on two: the primary key of assignments and
//     the guards of their writes see to it.
//   - A worker's assignments take no more than its capacity, whichever group they are of: its seat
//     counts them in the same transactions.
//   - What a supervisor writes carries the token of its claim: one that was taken for dead changes
//     nothing.
//   - No replica starts elsewhere before its worker has stopped it or said so. A worker that is not
//     answered for 12 s stops its jobs; it is taken for dead after 15. Its groups may say other
//     times: silence.go says how all who judge go by what the worker was told. A node that may be
//     no member any more answers no beat, nor one that has not read the store for as long (three
//     quarters of a lease): it may not know that the worker has gone elsewhere. Whoever takes a
//     worker over from another node counts its silence from then at the earliest (Seat.Overlap).
//     One at which a worker has just come answers only when the store has written down that it is
//     there, and from then on nobody drops what it runs.
//   - Nothing ends by ignorance. A run that no row speaks of goes on until the store has said that
//     nobody wants it, or is adopted: its sealed token shows that it was once given.
//   - What moves by choice starts elsewhere before it ends here, at most so many at a time, and no
//     job more often than once a minute.
//
// # When something breaks
//
//	a worker begins anew      what it had starts there again, under greater tokens
//	a handler hangs           it fails when it gave no sign for as long as its group says, and moves
//	a worker dies             its node sees it after 15 s; its replicas start elsewhere within two beats
//	its node dies             workers go to other nodes and go on; one that comes to none within 15 s is dead
//	many lose their node      and come to no other (5, and 30 %): they get one more limit, and it is told
//	the supervisor dies       another node claims the group; nothing moves, since the rows are the truth
//	all nodes start again     the same; nothing is assigned until workers have come back (warm-up)
//	the store is away         nothing is decided; after a lease time beats are not answered, workers stop their jobs, and start
//	                          them again where they were when it is back; who changes nodes meanwhile is answered by none
//	the store lost rows       what workers run is adopted
//	two workers of one name   the newer incarnation wins; the older one is told to end
//	a source breaks           the jobs stay as they are, and it is told once
package supervise
