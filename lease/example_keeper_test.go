package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/lease"
)

// A program that has a loop of its own calls Round in it, in place of Run.
func ExampleKeeper_Round() {
	ctx, now := context.Background(), time.Now()
	store := &lease.Memory{Clock: func() time.Time { return now }}
	k, err := lease.New(lease.Config{Store: store, Holder: "here/1", TTL: 9 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := k.Acquire(ctx, "report/daily", []byte("at 0 of 9"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		now = now.Add(time.Second)
		l.Set([]byte("at 3 of 9")) // others read it; it is written with the next renewal
		if err := k.Round(ctx, now); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(l.Err(), k.Calm(now), k.Judge(now).IsZero())
	fmt.Println(k.Close(ctx), errors.Is(l.Err(), lease.ErrReleased)) // releases what it holds
	// Output:
	// <nil> false true
	// <nil> true
}

// What is over is released, so that another can have it at once; what never will be again is
// removed, with its tokens.
func ExampleKeeper_Release() {
	ctx := context.Background()
	k, err := lease.New(lease.Config{Store: &lease.Memory{}, Holder: "here/1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := k.AcquireAll(ctx, lease.Want{Name: "a"}, lease.Want{Name: "b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.Release(ctx, list[0]), k.Remove(ctx, list[1]))
	fmt.Println(list[0].Err(), "/", list[1].Err())
	// Output:
	// <nil> <nil>
	// lease was released / lease was released
}
