package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// scheduleServer stands for a rota server that looks after a schedule.
func scheduleServer() *httptest.Server {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]string{
		"PUT /v1/schedules/nightly": `{"name":"nightly","cron":"30 2 * * *","zone":"Europe/Berlin","queue":"reports","next":"2026-10-25T00:30:00.000Z"}`,
		"POST /v1/schedules/preview": `{"times":["2026-10-24T00:30:00.000Z","2026-10-25T00:30:00.000Z"],"zone":"Europe/Berlin","sentence":"At 02:30 every day",` +
			`"notes":[{"at":"2026-10-25T00:30:00.000Z","text":"clocks are set back: 02:30 comes twice, and it is due at the first"}]}`,
		"PUT /v1/schedules/report": `{"name":"report","after":["orders","refunds"],"after_on":"done","queue":"reports"}`,
		"GET /v1/schedules/report/runs/{at}": `{"schedule":"orders","at":"2026-10-24T00:30:00.000Z","fires":2,"whole":true,"tree":[{"schedule":"orders","state":"done",` +
			`"children":[{"schedule":"report","state":"running","children":[]}]}]}`,
		"GET /v1/schedules/nightly/audit": `{"schedule":"nightly","complete":false,"demanded":31,"holes":["2026-10-07T00:30:00.000Z"]}`,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, answer)
		})
	}
	return httptest.NewServer(mux)
}

func ExampleClient_PutSchedule() {
	s := scheduleServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	nightly, err := c.PutSchedule(context.Background(), "nightly", client.ScheduleChange{
		Cron: new("30 2 * * *"), Zone: new("Europe/Berlin"), Queue: new("reports"),
		Context: []byte(`{"kind":"sales"}`), Overlap: new(task.OverlapSkip),
	})
	fmt.Println(nightly.Name, "is due at", nightly.Next.UTC(), err)
	// Output: nightly is due at 2026-10-25 00:30:00 +0000 UTC <nil>
}

// A report that is due when both that it needs are loaded, and the run to which its newest due time
// belongs.
func ExampleClient_ScheduleRun() {
	s := scheduleServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	report, err := c.PutSchedule(context.Background(), "report", client.ScheduleChange{
		After: new("orders,refunds"), AfterDelay: new(time.Minute), Queue: new("reports"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("report follows", report.Parents())
	run, err := c.ScheduleRun(context.Background(), "report",
		time.Date(2026, 10, 24, 0, 30, 0, 0, time.UTC))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, first := range run.Tree {
		fmt.Println(first.Schedule, first.State)
		for _, next := range first.Children {
			fmt.Println(" ", next.Schedule, next.State)
		}
	}
	// Output:
	// report follows [orders refunds]
	// orders done
	//   report running
}

func ExampleClient_PreviewSchedule() {
	s := scheduleServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	p, err := c.PreviewSchedule(context.Background(), client.PreviewRequest{
		Cron: "30 2 * * *", Zone: "Europe/Berlin", Count: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, note := range p.Notes {
		fmt.Println(note.At.Format(time.DateOnly), note.Text)
	}
	// Output: 2026-10-25 clocks are set back: 02:30 comes twice, and it is due at the first
}

func ExampleClient_AuditSchedule() {
	s := scheduleServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	october := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	a, err := c.AuditSchedule(context.Background(), "nightly", october, october.AddDate(0, 1, 0))
	fmt.Println(a.Complete, a.Demanded, a.Holes, err)
	// Output: false 31 [2026-10-07 00:30:00 +0000 UTC] <nil>
}
