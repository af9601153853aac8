package cron_test

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/cron"
)

func Example() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := cron.Parse("30 2 * * SUN", cron.Options{Zone: berlin})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Describe(cron.English))
	from := time.Date(2026, 3, 20, 0, 0, 0, 0, berlin)
	for t := range s.All(from, from.AddDate(0, 0, 21)) {
		fmt.Println(t)
		if note := s.Note(t); note != "" {
			fmt.Println("  ", note)
		}
	}
	// Output:
	// at 02:30 on Sunday, Europe/Berlin time
	// 2026-03-22 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	//    clocks go forward: 2026-03-29 02:30 does not exist in Europe/Berlin, so it is due at the end of the gap
	// 2026-04-05 02:30:00 +0200 CEST
}

func ExampleParse_fault() {
	_, err := cron.Parse("0 25 * * *", cron.Options{})
	fmt.Println(err)
	// Output: cron expression: hour "25" (at 3): must be 0 to 23
}

func ExampleSkip() {
	s, err := cron.Parse("0 9 * * MON-FRI", cron.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	holidays, err := cron.Skip("2026-12-25")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.On(holidays).Next(time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)))
	// Output: 2026-12-28 09:00:00 +0000 UTC
}

// Only these days, whatever the expression says of days.
func ExampleKeep() {
	closing, err := cron.Keep("2026-03-31", "2026-06-30")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := cron.Parse("0 18 * * *", cron.Options{Zone: time.UTC})
	if err != nil {
		fmt.Println(err)
		return
	}
	s = s.On(closing)
	fmt.Println(s.Next(time.Date(2026, 3, 20, 0, 0, 0, 0, s.Zone())))
	// Output: 2026-03-31 18:00:00 +0000 UTC
}
