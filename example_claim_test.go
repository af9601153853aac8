package rota_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/rotahq/rota"
)

// Each mailbox must be read by one process and by no second. Any number of processes run this
// program on one database: they share the mailboxes out, and take over those of a process that
// died.
func ExampleNode_Claim() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{
		Store: store, Name: "example", Beat: 50 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Add(2)
	mailboxes := func(context.Context) ([]string, error) { return []string{"ann", "bob"}, nil }
	read := func(ctx context.Context, c rota.Claim) {
		reading.Done()
		mails := make(chan string) // in life: of a connection that c.Held() bounds
		for ctx.Err() == nil {     // one mail after the other
			select {
			case mail := <-mails:
				fmt.Println(mail) // written with c.Token, by which a late write is refused
			case <-ctx.Done():
			case <-c.Held().Done(): // another node may have it now: stop at once
			}
		}
		fmt.Println("mailbox", c.Key, "is given back:", context.Cause(ctx))
	}
	if err := node.Claim("mailbox", mailboxes, read); err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()
	reading.Wait()
	stop()
	fmt.Println(<-ended)
	// Unordered output:
	// mailbox ann is given back: node is stopping
	// mailbox bob is given back: node is stopping
	// <nil>
}
