// Package client speaks to a rota server from Go: it submits tasks, looks at them, acts on them,
// configures queues and groups of jobs, and is the queue of a remote worker.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"time"
//
//		"github.com/rotahq/rota/client"
//		"github.com/rotahq/rota/task"
//	)
//
//	// Mail is what tasks of mail carry.
//	type Mail struct{ To string }
//
//	var mail = task.Define[Mail]("mail")
//
//	func main() {
//		c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:7700"}})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer c.Close()
//		ctx := context.Background()
//		receipts, err := c.Submit(ctx, mail.New(Mail{To: "ann"}))
//		if err != nil {
//			log.Fatal(err)
//		}
//		view, err := c.Task(ctx, receipts[0].ID, time.Minute) // waits so long for the end
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(view.State, string(view.Result))
//	}
//
// # Gathering
//
// Submissions of many goroutines travel together: one request is in flight (Config.Flights), and
// whatever is submitted meanwhile goes into the next. Each caller gets its own receipts, and its
// own error: when the server refuses a gathered request, each caller's part is sent again alone.
// Reports gather in the same way, per worker. So a lone call costs one request at once, and a
// thousand concurrent ones cost a few.
//
// # Trouble
//
// What the server refuses is an [*Error]; errors.Is finds its meaning. What is true of all calls
// stands only here: values that can't be are [ErrInvalid], with their places; a name or an id that
// there is not is [ErrNotFound]; a missing or wrong access token is [ErrUnauthorized], one that is
// not good for the call [ErrForbidden]; a server in trouble is [ErrUnavailable] or [ErrFull], and
// nothing was changed. [ErrConflict] is a thing in a state that does not allow the call, and the
// call says which. Beside an error other answers are zero, unless the call says otherwise.
//
// Calls are repeated, with growing, jittered pauses that honour Retry-After, when no server was
// reached, when the connection broke before all of the call was sent, and when the server says that
// it was too busy or full and changed nothing. Calls that may safely be made twice are also
// repeated when they may have arrived. A budget shared by all calls keeps the repeats to a tenth of
// the calls, so that a server in trouble isn't buried by its clients. Every wait ends with the
// call's context.
//
// A submission whose tasks don't all have keys is not repeated once it may have been stored: its
// error is [ErrOutcomeUnknown], and the caller decides. Submissions with keys are repeated; the key
// makes them one.
//
// Of several servers one is used until it can't be reached, or stays in trouble; then the next. Any
// of them answers any call. The other nodes of the servers' cluster are asked for once a minute,
// beside the calls that are made, and used in the same way when they answer; Config.Fixed turns
// that off.
package client
