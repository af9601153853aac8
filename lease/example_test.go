package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/lease"
)

func Example() {
	store := &lease.Memory{} // in earnest: a table that all processes see
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	here, _ := lease.New(lease.Config{Store: store, Holder: "here/1"})
	there, _ := lease.New(lease.Config{Store: store, Holder: "there/1"})
	go here.Run(ctx) // renews once a second
	go there.Run(ctx)

	l, err := here.Acquire(ctx, "report/daily", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = there.Acquire(ctx, "report/daily", nil)
	fmt.Println("there:", errors.Is(err, lease.ErrTaken))

	done := make(chan struct{})
	go func() {
		defer close(done)
		<-l.Context().Done() // the work ends with the holding
		fmt.Println("here:", context.Cause(l.Context()))
	}()
	l.Release(ctx)
	<-done

	_, err = there.Acquire(ctx, "report/daily", nil)
	fmt.Println("there:", err)
	// Output:
	// there: true
	// here: lease was released
	// there: <nil>
}

func ExampleKeeper_AcquireAll() {
	k, _ := lease.New(lease.Config{Store: &lease.Memory{}, Holder: "here/1"})
	list, _ := k.AcquireAll(context.Background(), lease.Want{Name: "a"}, lease.Want{Name: "b"},
		lease.Want{Name: "c"})
	for _, l := range list {
		fmt.Println(l.Name(), l.Err())
	}
	// Output:
	// a <nil>
	// b <nil>
	// c <nil>
}

func ExampleLease_Token() {
	ctx := context.Background()
	k, _ := lease.New(lease.Config{Store: &lease.Memory{}, Holder: "here/1", TTL: 30 * time.Second})
	var last int64
	for range 3 {
		// each holder writes with a greater token than all before it, so that a late write can be
		// refused
		l, _ := k.Acquire(ctx, "report/daily", nil)
		fmt.Println(l.Token() > last)
		last = l.Token()
		l.Release(ctx)
	}
	// Output:
	// true
	// true
	// true
}

func ExampleLease_Until() {
	ctx := context.Background()
	k, _ := lease.New(lease.Config{Store: &lease.Memory{}, Holder: "here/1", TTL: 30 * time.Second})
	l, _ := k.Acquire(ctx, "report/daily", nil)
	// what takes longer than is left of it had better wait for the next renewal
	left := time.Until(l.Until())
	fmt.Println(left > 20*time.Second, left < 30*time.Second)
	// Output: true true
}
