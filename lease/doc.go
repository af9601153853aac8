// Package lease lets a process own a name for a while: the leader of something, the one that looks
// after a key, a member of a group. Of all processes that share a store, at most one holds a name
// at a time, and when it dies the name is free by itself.
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"fmt"
//		"log"
//
//		"github.com/rotahq/rota/lease"
//	)
//
//	func main() {
//		ctx, stop := context.WithCancel(context.Background())
//		defer stop()
//		store := &lease.Memory{} // in earnest a table that all processes see
//		k, err := lease.New(lease.Config{Store: store, Holder: "host-7/4711"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		go k.Run(ctx) // renews once a second
//		l, err := k.Acquire(ctx, "report/daily", nil)
//		if errors.Is(err, lease.ErrTaken) {
//			return // somebody else looks after it
//		}
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer l.Release(ctx)
//		write(l.Context(), l.Token()) // the context ends when the holding does
//	}
//
//	func write(ctx context.Context, token int64) { fmt.Println(ctx.Err(), token > 0) }
//
// A [Keeper] is one process's side of it. It renews everything it holds in one call of the store
// per beat, so that 10,000 names cost no more statements than one. The [Store] is three short
// transactions on any database; [Memory] is one for tests.
//
// # States
//
//	               Acquire                    no renewal was answered in time
//	free, ended, ───────────> held ─────────────────────────────────────────────> lapsed
//	or expired                │  ^ └─ renewed ─┐                                 │   │
//	                          │  │ └────────────┘                                 │   │
//	                          │  └──── Round: renewed after all, same token, ─────┘   │
//	                          │        a new Context                                  │
//	                          │                                                       │
//	                          └────────> over <───────────────────────────────────────┘
//	       ErrReleased: Release, Close      ErrLost: another has it, or somebody ended it
//
// Holding is a context. It ends with a cause: [ErrExpired], [ErrLost] or [ErrReleased].
//
// # What holds
//
//   - Two keepers never hold one name at the same time. A context ends Config.Margin before the
//     store would give the name to anybody else, counted on this process's monotonic clock from
//     before the renewal was asked for: an answer that was long on its way shortens the holding, it
//     never lengthens it.
//   - Tokens of a name only grow. Each holder has a greater one than all before it.
//   - Only the store's clock decides what has expired. Clocks of processes only measure how long
//     something took.
//   - Nobody is taken for dead without having had the chance to speak. A keeper takes what has
//     expired, or ends it, only when it is calm ([Keeper.Calm]): for a whole TTL it has heard the
//     store regularly, and the store's clock has gone as its own. So nobody loses anything when the
//     store was away, when its clock jumped, or when a whole cluster comes up together.
//   - After an outage longer than a lease, whoever comes back renews what it held and nobody else
//     was given meanwhile: lapsed, with its token unchanged. Nothing that it wrote with the token
//     becomes void.
//   - A lost answer costs time, never a double holding. What the store gave a keeper that never
//     heard of it is its own to ask for again, or expires.
//
// # What is not promised
//
// That a holder notices at once. A process that is stopped (SIGSTOP, a long pause of the machine)
// may act on a name it no longer holds before it has looked at the context, and so may a write that
// was long on its way. Where that matters let the database refuse: write with [Lease.Token], and
// let the statement check that the token still stands.
//
// Suspended machines: a monotonic clock may stand still while the machine sleeps. A clock of the
// store that jumps there and back within a third of a TTL fools everybody. And a store that loses
// what it had answered loses leases, too.
package lease
