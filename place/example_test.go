package place

import (
	"fmt"
	"strings"
)

func ExampleCompute() {
	s := State{
		Jobs:    []Job{{Name: "feed", Load: Unit}, {Name: "ticker", Load: 2 * Unit}},
		Workers: []Worker{{Name: "a", Capacity: 4 * Unit}, {Name: "b", Capacity: 4 * Unit}},
		Current: []Replica{{Job: "feed", Replica: 0, Worker: "a"}},
	}
	plan, err := Compute(s, Policy{Replicas: 2})
	if err != nil {
		fmt.Println(err)
	}
	for _, x := range plan.Start {
		fmt.Printf("start %s/%d on %s\n", x.Job, x.Replica, x.Worker)
	}

	fmt.Println("nothing to do:", plan.Empty())

	s.Jobs[0].Replicas = 3
	plan, _ = Compute(s, Policy{Replicas: 2})
	for _, x := range plan.Pending {
		fmt.Printf("%s/%d waits: %v\n", x.Job, x.Replica, x.Reason)
	}
	// Output:
	// start feed/1 on b
	// start ticker/0 on b
	// start ticker/1 on a
	// nothing to do: false
	// feed/2 waits: every worker that could take it has another replica of the job: of 2 workers 2 have another replica of the job
}

func ExampleExplain() {
	s := State{
		Jobs:    []Job{{Name: "feed", Load: 3 * Unit}, {Name: "ticker", Load: Unit}},
		Workers: []Worker{{Name: "a", Capacity: 4 * Unit}, {Name: "b", Capacity: 2 * Unit}},
		Current: []Replica{{Job: "feed", Worker: "a"}, {Job: "ticker", Worker: "b"}},
	}
	e, err := Explain(s, Policy{Replicas: 2}, "feed")
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range e.Replicas {
		fmt.Println(e.Job, r.Replica, r.Text)
	}
	for _, c := range e.Candidates {
		fmt.Println(c.Worker, c.Text)
	}
	fmt.Println("what would change it:", strings.Join(e.Changes, ", or "))
	// Output:
	// feed 0 runs on a, which has 100.0 % of its capacity in use; no other worker could take it
	// feed 1 waits: no worker has room for a load of 3: of 2 workers 1 has another replica of the job, 1 has room for 1
	// a has a replica of the job, or one that is being ended
	// b has room for 1 of 3
	// what would change it: a further worker with room for 3, or 2 more capacity on a worker that has room for 1
}
