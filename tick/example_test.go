package tick_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/tick"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A worker that says nothing for 15 s is lost.
func ExampleClock() {
	clock := tick.New(tick.Config{})
	clock.Beat(noon) // in a program: clock.Run(ctx)

	silence := clock.After(15*time.Second, func() { fmt.Println("worker lost") })
	clock.Every(10*time.Second, func() { fmt.Println("ten seconds") })

	clock.Beat(noon.Add(10 * time.Second))
	silence.Reset(15 * time.Second) // it said something
	clock.Beat(noon.Add(20 * time.Second))
	clock.Beat(noon.Add(25 * time.Second))
	// Output:
	// ten seconds
	// ten seconds
	// worker lost
}

func ExampleClock_Run() {
	ctx, stop := context.WithCancel(context.Background())
	clock := tick.New(tick.Config{Beat: time.Millisecond})
	var running sync.WaitGroup
	running.Go(func() { clock.Run(ctx) })

	beats := 0
	clock.Every(5*time.Millisecond, func() {
		if beats++; beats == 3 {
			stop()
		}
	})
	running.Wait()
	fmt.Println(beats, "beats")
	// Output: 3 beats
}

func ExampleClock_After() {
	clock := tick.New(tick.Config{})
	clock.Beat(noon)
	clock.After(time.Minute, func() { fmt.Println("a minute is over") })
	clock.Beat(noon.Add(time.Minute - 1))
	fmt.Println("not yet")
	clock.Beat(noon.Add(time.Minute))
	// Output:
	// not yet
	// a minute is over
}

// A late beat calls once, and the deadlines stay where they were.
func ExampleClock_Every() {
	clock := tick.New(tick.Config{})
	clock.Beat(noon)
	clock.Every(10*time.Second, func() { fmt.Println("late by", clock.Late()) })
	for _, seconds := range []time.Duration{10, 25, 30, 65, 70} {
		clock.Beat(noon.Add(seconds * time.Second))
	}
	// Output:
	// late by 0s
	// late by 5s
	// late by 0s
	// late by 25s
	// late by 0s
}

// Beat makes time an argument: in tests nothing waits.
func ExampleClock_Beat() {
	clock := tick.New(tick.Config{})
	clock.Beat(noon)
	clock.After(1000*time.Hour, func() { fmt.Println("42 days later") })
	clock.Beat(noon.Add(1000 * time.Hour))
	// Output: 42 days later
}

func ExampleClock_Pending() {
	clock := tick.New(tick.Config{})
	clock.After(time.Second, func() {})
	clock.After(time.Minute, func() {}).Stop()
	fmt.Println(clock.Pending())
	// Output: 1
}

// After a stop of this very process everybody else seems to have been silent.
func ExampleClock_Late() {
	const limit = 15 * time.Second
	clock := tick.New(tick.Config{})
	clock.Beat(noon)
	var silence *tick.Timer
	silence = clock.After(limit, func() {
		if clock.Late() > limit/3 {
			fmt.Println("I was away myself: another", limit)
			silence.Reset(limit)
			return
		}
		fmt.Println("worker lost")
	})
	clock.Beat(noon.Add(time.Hour))
	clock.Beat(noon.Add(time.Hour + limit))
	// Output:
	// I was away myself: another 15s
	// worker lost
}

func ExampleTimer_Reset() {
	clock := tick.New(tick.Config{})
	clock.Beat(noon)
	timer := clock.After(15*time.Second, func() { fmt.Println("silent for 15 s") })
	clock.Beat(noon.Add(10 * time.Second))
	fmt.Println("was pending:", timer.Reset(15*time.Second))
	clock.Beat(noon.Add(25 * time.Second))
	fmt.Println("was pending:", timer.Reset(15*time.Second))
	// Output:
	// was pending: true
	// silent for 15 s
	// was pending: false
}

func ExampleTimer_Stop() {
	clock := tick.New(tick.Config{})
	timer := clock.After(time.Second, func() { fmt.Println("never") })
	fmt.Println(timer.Stop(), timer.Stop())
	clock.Beat(noon)
	clock.Beat(noon.Add(time.Second))
	// Output: true false
}

// What is left of a limit says how long the other side has been silent.
func ExampleTimer_Left() {
	clock := tick.New(tick.Config{})
	clock.Beat(noon)
	timer := clock.After(15*time.Second, func() {})
	clock.Beat(noon.Add(4 * time.Second))
	left, _ := timer.Left()
	fmt.Println("silent for", 15*time.Second-left)
	// Output: silent for 4s
}
