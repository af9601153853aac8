package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

func TestWithoutSchedulesThereAreNone(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) { c.Schedules, c.Fires, c.Almanac = nil, nil, nil })
	for call, want := range map[string]int{
		"GET /v1/schedules": 200, "GET /v1/schedules/nightly": 404,
		"PUT /v1/schedules/nightly": 404, "DELETE /v1/schedules/nightly": 404,
		"POST /v1/schedules/nightly/pause": 404, "POST /v1/schedules/nightly/resume": 404,
		"POST /v1/schedules/nightly/run":      404,
		"POST /v1/schedules/nightly/backfill": 404, "GET /v1/schedules/nightly/fires": 404,
		"GET /v1/schedules/nightly/audit": 404,
		"POST /v1/schedules/preview":      404, "GET /v1/calendars": 200,
		"GET /v1/calendars/de":    404,
		"DELETE /v1/calendars/de": 404,
	} {
		body := ""
		if strings.HasPrefix(call, "PUT") || strings.HasSuffix(call, "preview") ||
			strings.HasSuffix(call, "backfill") {
			body = "{}"
		}
		if call == "POST /v1/schedules/preview" {
			body = `{"cron":"@daily"}`
		}
		if response, text := ask(t, a, call, body); response.StatusCode != want {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
	}
	if response, text := ask(
		t, a, "PUT /v1/calendars/de", `{"skip":["2026-12-25"]}`,
	); response.StatusCode != 404 {
		t.Errorf("put a calendar: %d %s", response.StatusCode, text)
	}
}

// hurried is a clockwork of which other nodes change schedules so many times before a put.
type hurried struct {
	clockwork
	left *int
}

func (h hurried) Put(ctx context.Context, edits ...store.ScheduleEdit) ([]store.Edited, error) {
	if *h.left--; *h.left >= 0 {
		return nil, store.ErrStale
	}
	return h.clockwork.Put(ctx, edits...)
}

func TestChangeThatOthersSpoilIsMadeAgain(t *testing.T) {
	for others, want := range map[int]int{0: 200, 3: 200, changeTries - 1: 200, changeTries: 503} {
		f := newFake()
		a := newAPI(t, f, func(c *Config) { c.Schedules = hurried{clockworkOf(f), &others} })
		if response, text := ask(
			t, a, "PUT /v1/schedules/nightly", `{"paused":true}`,
		); response.StatusCode != want {
			t.Errorf("%d %s, want %d", response.StatusCode, text, want)
		}
	}
}

func TestChosenTimeStaysUntilItHasComeOrOthersAreWanted(t *testing.T) {
	at := moment.UnixMicro()
	was := store.ScheduleView{
		Schedule: store.Schedule{Schedule: limits.DefaultSchedule("a"), First: at, Next: at},
	}
	was.Cron = "@daily"
	over := was
	over.Next = at + 1
	for _, c := range []struct {
		name, body string
		was        *store.ScheduleView
		want       int64
	}{
		{"new", `{}`, nil, 0},
		{"new, chosen", `{"next":"2026-12-01T00:00:00Z"}`, nil, 1796083200e6},
		{"unchanged", `{}`, &was, at},
		{"the same expression", `{"cron":"@daily","calendar":"","starts":""}`, &was, at},
		{"what it does", `{"queue":"q","context":1,"ends":"2027-01-01T00:00:00Z","overlap":"skip"}`,
			&was, at},
		{"another expression", `{"cron":"@hourly"}`, &was, 0},
		{"another zone", `{"zone":"Asia/Tokyo"}`, &was, 0},
		{"another calendar", `{"calendar":"de"}`, &was, 0},
		{"another start", `{"starts":"2026-01-01T00:00:00Z"}`, &was, 0},
		{"after another", `{"after":"b"}`, &was, 0},
		{"undone", `{"next":""}`, &was, 0},
		{"chosen anew, with another expression", `{"cron":"@hourly","next":"2026-12-01T00:00:00Z"}`,
			&was, 1796083200e6},
		{"over", `{}`, &over, 0},
	} {
		var in ScheduleIn
		if err := json.Unmarshal([]byte(c.body), &in); err != nil {
			t.Fatal(err)
		}
		if got := in.edit("a", c.was).First; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAnswerToAChangeShowsWhatWasFiredLast(t *testing.T) {
	_, text := ask(t, newAPI(t, newFake(), nil), "PUT /v1/schedules/nightly", `{"paused":true}`)
	if !strings.Contains(text, `"last_task":"`+idOf(0).String()+`"`) {
		t.Error(text)
	}
}

func TestManySchedulesInOneCallAreTakenUpToTheLimit(t *testing.T) {
	story.Whole(t)
	a := newAPI(t, newFake(), func(c *Config) { c.MaxBody, c.MaxBodies = 32<<20, 256<<20 })
	list := func(n int, name func(int) string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"name":%q,"cron":"* * * * *","queue":"mail"}`, name(i))
		}
		return `{"schedules":[` + strings.TrimPrefix(b.String(), ",") + `]}`
	}
	each := func(i int) string { return fmt.Sprint("s", i) }
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{list(limits.MaxSchedules, each), 200,
			`{"name":"s9999","created":true,"version":1,"next":"1970-01-01T00:00:00.000Z"}]}`},
		{list(limits.MaxSchedules+1, each), 422, "10001 are more than 10000"},
		{list(limits.MaxSchedules, func(int) string {
			return "one"
		}), 422, fmt.Sprintf("%d values are wrong", limits.MaxFaults)},
	} {
		if response, text := ask(
			t, a, "PUT /v1/schedules", c.body,
		); response.StatusCode != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%d %.200s", response.StatusCode, text)
		}
	}
}

// barn has many schedules with large contexts.
type barn struct {
	clockwork
	schedules, contexts, reads int
}

func (b *barn) Schedules(
	_ context.Context, q store.ScheduleQuery,
) (list []store.ScheduleView, err error) {
	b.reads++
	for i := 0; len(list) < q.Limit && i < b.schedules; i++ {
		v := store.ScheduleView{
			Schedule: store.Schedule{Schedule: limits.DefaultSchedule(fmt.Sprintf("s%04d", i))},
		}
		if v.Context = json.RawMessage(
			`"` + strings.Repeat("x", b.contexts) + `"`,
		); v.Name > q.After {
			list = append(list, v)
		}
	}
	return list, nil
}

func TestPageOfSchedulesEndsWhenItsContextsAreLarge(t *testing.T) {
	story.Whole(t)
	for _, c := range []struct{ schedules, contexts, items, reads int }{
		{1500, 10, 1000, 16}, {250, 60 << 10, 80, 2}, {250, 10 << 10, 250, 6},
	} {
		b := &barn{schedules: c.schedules, contexts: c.contexts}
		a := newAPI(t, newFake(), func(conf *Config) { conf.Schedules = b })
		seen, first := 0, true
		for cursor := ""; first || cursor != ""; first = false {
			b.reads = 0
			response, text := ask(t, a, "GET /v1/schedules?limit=1000&cursor="+cursor, "")
			var page list[ScheduleItem]
			if err := json.Unmarshal([]byte(text), &page); err != nil ||
				response.StatusCode != 200 {
				t.Fatal(response.StatusCode, err)
			}
			if first && (len(page.Items) != c.items || b.reads != c.reads) {
				t.Errorf("contexts of %d bytes: %d items by %d reads, want %d by %d", c.contexts,
					len(page.Items), b.reads, c.items, c.reads)
			}
			for i := range page.Items {
				if want := fmt.Sprintf("s%04d", seen); page.Items[i].Name != want {
					t.Fatalf("%s stands where %s should", page.Items[i].Name, want)
				}
				seen++
			}
			cursor = page.Next
		}
		if seen != c.schedules {
			t.Errorf("contexts of %d bytes: %d schedules in all", c.contexts, seen)
		}
	}
}

func TestAnswersThatMayBeLargeAreRefusedWithoutMemoryForThem(t *testing.T) {
	story.Whole(t)
	a := newAPI(t, newFake(), nil)
	a.large.take(a.large.limit, 0)
	for call, body := range map[string]string{"GET /v1/schedules": "",
		"POST /v1/schedules/nightly/backfill": `{"from":"2026-10-01T00:00:00Z","to":"2026-10-02T00:00:00Z"}`} {
		if response, _ := ask(t, a, call,
			body); response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d", call, response.StatusCode)
		}
	}
}

// A backfill goes in pieces, so a failure proves nothing about all of it.
func TestBackfillThatFailsMayBeDoneInPart(t *testing.T) {
	f := newFake()
	f.err = store.ErrBusy
	a := newAPI(t, f, nil)
	for body, want := range map[string]string{
		`{"from":"2026-10-01T00:00:00Z","to":"2026-10-02T00:00:00Z"}`:                `"outcome":"unknown"`,
		`{"from":"2026-10-01T00:00:00Z","to":"2026-10-02T00:00:00Z","dry_run":true}`: `"outcome":"unchanged"`,
	} {
		if _, text := ask(
			t, a, "POST /v1/schedules/nightly/backfill", body,
		); !strings.Contains(text, want) {
			t.Errorf("%s: %s", body, text)
		}
	}
}

// FuzzJitter: whatever is read is written so that it is read again as the same.
func FuzzJitter(f *testing.F) {
	for _, seed := range []string{`"30s"`, `0.25`, `0`, `1`, `"0s"`, `-1`, `null`, `"x"`,
		`1e-320`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var j, again jitter
		if json.Unmarshal([]byte(text), &j) != nil {
			return
		}
		if err := json.Unmarshal(encoded(j), &again); err != nil ||
			cmp.Diff(task.Jitter(j), task.Jitter(again)) != "" {
			t.Errorf("%s became %s, then %+v: %v", text, encoded(j), again, err)
		}
		if j.Share != 0 && j.Max != 0 {
			t.Errorf("%s is %v and %v at once", text, j.Share, j.Max)
		}
	})
}

// FuzzParseFireCursor: a cursor is read as what was written, and nothing else is read at all.
func FuzzParseFireCursor(f *testing.F) {
	f.Add(time.Now().UnixMicro(), "")
	f.Add(int64(1), cursor(fireShelf, "-5"))
	f.Add(int64(0), cursor(fireShelf, "007"))
	f.Fuzz(func(t *testing.T, at int64, text string) {
		if got, err := parseFireCursor(fireCursor(at)); at > 0 && (err != nil || got != at) {
			t.Errorf("%d became %d, %v", at, got, err)
		}
		if got, err := parseFireCursor(text); err == nil && text != "" && fireCursor(got) != text {
			t.Errorf("%q is read as %d", text, got)
		}
	})
}

// A token of one queue sees of a run what is in that queue, and nothing below what is not.
func TestRunShowsWhatIsInTheScope(t *testing.T) {
	root := store.FireKey{Schedule: "load", At: 1_000_000}
	fire := func(name, queue string, at int64, parent string) store.RunFire {
		f := store.RunFire{Queue: queue, Fire: store.Fire{Schedule: name, At: root.At, Time: at}}
		if parent != "" {
			f.Parents = []store.FireKey{{Schedule: parent, At: root.At}}
		}
		return f
	}
	v := store.RunView{Root: root, Whole: true, Fires: []store.RunFire{
		fire("mail", "mail", 3, "secret"), fire("load", "mail", 1, ""),
		fire("clean", "mail", 4, "load"), fire("secret", "vault", 2, "load"),
	}}
	v.Tree()
	for _, c := range []struct {
		scope *scope
		want  int
	}{
		{nil, 4}, {&scope{queues: patterns{"mail"}}, 2}, {&scope{queues: patterns{"vault"}}, 0},
	} {
		run := runOf(&v, c.scope)
		if run.Fires != c.want || run.Tree == nil {
			t.Errorf("%v: %d fires, want %d: %+v", c.scope, run.Fires, c.want, run.Tree)
		}
	}
}

// halves are many schedules, of which every other one is of queue mail.
type halves struct{ barn }

func (h *halves) Schedules(
	ctx context.Context, q store.ScheduleQuery,
) ([]store.ScheduleView, error) {
	list, err := h.barn.Schedules(ctx, q)
	for i := range list {
		list[i].Queue = []string{"mail", "vault"}[(list[i].Name[len(list[i].Name)-1]-'0')%2]
	}
	return list, err
}

// A cursor is not sealed: the name in it must be of a schedule that its reader may see, and where a
// page ends must not tell of others.
func TestPagesOfSchedulesAreAsIfThereWereNoneOutOfScope(t *testing.T) {
	h := &halves{barn{schedules: 301}}
	a := newAPI(t, newFake(), func(c *Config) { c.Tokens, c.Schedules = scoped(t), h })
	for _, limit := range []int{1, 50, 75, 149, 150, 151, 1000} {
		seen := 0
		for cursor, first := "", true; first || cursor != ""; first = false {
			response, text := ask(t, a, fmt.Sprintf("GET /v1/schedules?limit=%d&cursor=%s", limit,
				cursor), "", "Authorization: Bearer viewer-in")
			var page list[ScheduleItem]
			if err := json.Unmarshal([]byte(text), &page); err != nil ||
				response.StatusCode != http.StatusOK {
				t.Fatal(response.StatusCode, err, text)
			}
			for i := range page.Items {
				if want := fmt.Sprintf("s%04d", 2*seen); page.Items[i].Name != want {
					t.Fatalf("limit %d: %s stands where %s should", limit, page.Items[i].Name, want)
				}
				seen++
			}
			cursor = page.Next
			if n := len(page.Items); n > limit || cursor != "" && n < limit {
				t.Errorf("limit %d: a page has %d, then %q", limit, n, cursor)
			}
			place, err := parseCursor(scheduleShelf, cursor)
			if n := len(page.Items); err != nil ||
				place != "" && (n == 0 || place != page.Items[n-1].Name) {
				t.Fatalf("limit %d: the cursor has %q: %v", limit, place, err)
			}
		}
		if seen != 151 {
			t.Errorf("limit %d: %d schedules in all", limit, seen)
		}
	}
}
