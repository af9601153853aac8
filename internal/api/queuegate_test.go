package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/bucket"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func to(names ...string) (tasks []task.Submission) {
	for _, name := range names {
		tasks = append(tasks, task.Submission{Queue: name})
	}
	return tasks
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

func TestSubmissionsMakeOnlySoManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var there []task.Queue
		g := newQueueGate(func(context.Context) ([]task.Queue, error) {
			asked++
			return there, nil
		})
		shop := &Caller{who: principal{Name: "shop", Role: roleSubmitter}}
		db := &Caller{who: principal{Name: "store", Role: roleSubmitter}}
		ann := &Caller{who: principal{Name: "ann", Role: roleOperator}}
		try := func(c *Caller, names ...string) error {
			return g.admit(c, to(names...), time.Now())
		}
		for _, name := range numbered("a", madeAtOnce) {
			if err := try(shop, name, "mail", name, "mail"); err != nil && name != "a-999" {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "a-998" { // mail is one of them
				break
			}
		}
		if err := try(shop, "a-1", "b"); err == nil ||
			!strings.Contains(err.Error(), "body.tasks[1].queue") ||
			!strings.Contains(err.Error(), "PUT /v1/queues") {
			t.Errorf("one more: %v", err)
		}
		if err := errors.Join(try(shop, "a-1", "mail", "NOT A NAME"), try(db, "b"), try(shop, "b"),
			try(ann, numbered("c", 2000)...)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour + time.Second)
		for q := range g.known {
			there = append(there, task.Queue{Name: q})
		}
		if err := try(shop, numbered("d", madePerHour)...); err != nil {
			t.Errorf("an hour later: %v", err)
		}
		if err := try(shop, "e"); err == nil {
			t.Error("more than an hour's were made")
		}
		if err := try(ann, numbered("f", maxMade-len(g.known)+1)...); err == nil ||
			!strings.Contains(err.Error(), "submissions make no more") {
			t.Errorf("more than there may be: %v", err)
		}
		g.learn("f-1") // somebody put it
		if err := try(db, "f-1"); err != nil {
			t.Error(err)
		}
		if asked > 3 {
			t.Errorf("the store was asked %d times within two moments", asked)
		}
	})
}

func TestRefusedQueueIsNoSubmission(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) {
		tokens, err := ParseTokens(strings.NewReader("shop submitter a-token\n"))
		if c.Tokens = tokens; err != nil {
			t.Fatal(err)
		}
	})
	makers := nounOf[*hotCalls](t, a).makers
	makers.by["submitter shop"] = &bucket.Bucket{Rate: 0, Burst: 1, Left: 1, At: time.Now()}
	for _, c := range []struct {
		tasks string
		want  int
	}{
		{`{"queue":"n1"},{"queue":"n2"}`, 422}, {`{"queue":"mail"},{"queue":"n3"}`, 201},
		{`{"queue":"n3"},{"queue":"n4"}`, 422},
	} {
		if response, text := ask(
			t, a, "POST /v1/tasks", `{"tasks":[`+c.tasks+`]}`, "Authorization: Bearer a-token",
		); response.StatusCode != c.want {
			t.Errorf("%s: %d %s", c.tasks, response.StatusCode, text)
		}
	}
	if len(f.changed()) != 1 {
		t.Errorf("done: %q", f.changed())
	}
}

func TestManyQueuesAndGroupsShareTheirSeries(t *testing.T) {
	var s queueSeries
	counts := make([]store.QueueCounts, 50_000)
	for i := range counts {
		counts[i] = store.QueueCounts{
			Queue: fmt.Sprintf("q-%05d", i), Counts: task.Counts{Ready: int64(i % 7), Done: 1},
			OldestReady: int64(100_000 - i),
		}
	}
	first, all := s.choose(counts[:10])
	if all != 10 || len(first) != 10 {
		t.Fatalf("%d of %d", len(first), all)
	}
	sum := func(list []store.QueueCounts) (c task.Counts) {
		for i := range list {
			c.Ready, c.Done = c.Ready+list[i].Counts.Ready, c.Done+list[i].Counts.Done
		}
		return c
	}
	show, all := s.choose(counts)
	if len(show) != maxSeries+1 || all != 50_000 || sum(show) != sum(counts) {
		t.Errorf("%d series of %d queues, %+v of %+v", len(show), all, sum(show), sum(counts))
	}
	if rest := show[maxSeries]; rest.Queue != others || limits.ValidName(rest.Queue) ||
		rest.OldestReady == 0 {
		t.Errorf("the others are %+v", rest)
	}
	own := map[string]bool{}
	for _, q := range show {
		own[q.Queue] = true
	}
	for i := range 10 {
		if !own[counts[i].Queue] {
			t.Errorf("%s lost its series", counts[i].Queue)
		}
	}
	for i := range counts {
		counts[i].Counts.Ready = 6 - counts[i].Counts.Ready // others have more now
	}
	again, _ := s.choose(counts)
	for _, q := range again {
		if !own[q.Queue] {
			t.Fatalf("%s has a series all of a sudden", q.Queue)
		}
	}
	groups := make([]store.GroupView, maxSeries+3)
	for i := range groups {
		groups[i].Name, groups[i].Running, groups[i].Budget.Workers = fmt.Sprint(i), 1, 5
	}
	groups[maxSeries+1].Budget.Workers = 2
	shown := boundedGroups(groups)
	if rest := shown[maxSeries]; len(shown) != maxSeries+1 || rest.Name != others ||
		rest.Running != 3 || rest.Budget.Workers != 2 {
		t.Errorf("%d groups, the others %+v", len(shown), shown[maxSeries])
	}
}

func TestScrapesShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		look, end := shared(func() (int, error) {
			n++
			return n, nil
		})
		defer end()
		for range 100 {
			look()
			time.Sleep(20 * time.Millisecond)
		}
		if n != 2 {
			t.Errorf("looked %d times in two seconds", n)
		}
	})
}
