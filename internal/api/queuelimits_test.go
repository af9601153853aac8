package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Only what is given changes; 0, null and, of a rate, text that says so take a limit away, and a
// burst goes with its rate.
func TestLimitsOfAQueueChangeOnlyWhereTheyAreGiven(t *testing.T) {
	type limited struct {
		most  int
		rate  string
		burst int
	}
	all := limited{20, "100/1s", 30}
	for body, want := range map[string]limited{
		`{}`:                             all,
		`{"title":"t"}`:                  all,
		`{"max_running":5}`:              {5, "100/1s", 30},
		`{"max_running":0}`:              {0, "100/1s", 30},
		`{"max_running":null}`:           {0, "100/1s", 30},
		`{"rate":"5/m"}`:                 {20, "5/1m0s", 30},
		`{"rate":"5/1m","burst":null}`:   {20, "5/1m0s", 0},
		`{"burst":7}`:                    {20, "100/1s", 7},
		`{"burst":0}`:                    {20, "100/1s", 0},
		`{"burst": null}`:                {20, "100/1s", 0},
		`{"rate":0}`:                     {20, "", 0},
		`{"rate":"0"}`:                   {20, "", 0},
		`{"rate":""}`:                    {20, "", 0},
		`{"rate": null }`:                {20, "", 0},
		`{"rate":null,"burst":0}`:        {20, "", 0},
		`{"max_running":null,"rate":""}`: {0, "", 0},
	} {
		f := newFake()
		q := &f.queues[0]
		q.MaxRunning, q.Rate, q.Burst = 20, task.Rate{Count: 100, Per: time.Second}, 30
		r, text := ask(t, newAPI(t, f, nil), "PUT /v1/queues/mail", body)
		var got struct {
			Max   *int    `json:"max_running"`
			Rate  *string `json:"rate"`
			Burst *int    `json:"burst"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || r.StatusCode != 200 {
			t.Errorf("%s: %d %s", body, r.StatusCode, text)
			continue
		}
		if is := (limited{*got.Max, *got.Rate, *got.Burst}); is != want {
			t.Errorf("%s makes it %+v, want %+v", body, is, want)
		}
		if !strings.Contains(f.changed()[0],
			fmt.Sprintf("MaxRunning:%d Rate:%s Burst:%d", want.most, want.rate, want.burst)) {
			t.Errorf("%s stores %s", body, f.changed()[0])
		}
	}
}

// The same of each key; null and {} take all its limits away. Whether keys take turns is no limit.
func TestLimitsOfEachKeyChangeOnlyWhereTheyAreGiven(t *testing.T) {
	story.Whole(t)
	type perKey struct {
		Max   int    `json:"max_running"`
		Rate  string `json:"rate"`
		Burst int    `json:"burst"`
		// in answers it is always said
		OnDead string `json:"on_dead"`
	}
	type conf struct {
		Own    int    `json:"max_running"`
		PerKey perKey `json:"per_key"`
		Fair   bool   `json:"fair"`
	}
	const goOn = "continue"
	all := perKey{2, "5/1s", 7, goOn}
	for body, want := range map[string]conf{
		`{}`:                                   {20, all, true},
		`{"max_running":null,"rate":0}`:        {0, all, true},
		`{"fair":false}`:                       {20, all, false},
		`{"fair":true}`:                        {20, all, true},
		`{"per_key":{"max_running":1}}`:        {20, perKey{1, "5/1s", 7, goOn}, true},
		`{"per_key":{"on_dead":"continue"}}`:   {20, all, true},
		`{"per_key":{"max_running":0}}`:        {20, perKey{0, "5/1s", 7, goOn}, true},
		`{"per_key":{"max_running":null}}`:     {20, perKey{0, "5/1s", 7, goOn}, true},
		`{"per_key":{"rate":"9/m"}}`:           {20, perKey{2, "9/1m0s", 7, goOn}, true},
		`{"per_key":{"rate":"9/m","burst":0}}`: {20, perKey{2, "9/1m0s", 0, goOn}, true},
		`{"per_key":{"burst":8}}`:              {20, perKey{2, "5/1s", 8, goOn}, true},
		`{"per_key":{"burst":null}}`:           {20, perKey{2, "5/1s", 0, goOn}, true},
		`{"per_key":{"rate":0}}`:               {20, perKey{2, "", 0, goOn}, true},
		`{"per_key":{"rate":null}}`:            {20, perKey{2, "", 0, goOn}, true},
		`{"per_key":{"rate":"","burst":null}}`: {20, perKey{2, "", 0, goOn}, true},
		`{"per_key":null}`:                     {20, perKey{OnDead: goOn}, true},
		`{"per_key": {} ,"fair":false}`:        {20, perKey{OnDead: goOn}, false},
		`{"per_key":{"max_running":1,"on_dead":"stop"}}`: {
			20, perKey{1, "5/1s", 7, "stop"}, true,
		},
		`{"per_key":null,"max_running":3}`: {3, perKey{OnDead: goOn}, true},
	} {
		f := newFake()
		q := &f.queues[0]
		q.MaxRunning, q.Fair = 20, true
		q.PerKey = task.KeyLimits{
			MaxRunning: 2, Rate: task.Rate{Count: 5, Per: time.Second}, Burst: 7,
		}
		r, text := ask(t, newAPI(t, f, nil), "PUT /v1/queues/mail", body)
		var got conf
		if err := json.Unmarshal([]byte(text), &got); err != nil || r.StatusCode != 200 {
			t.Errorf("%s: %d %s", body, r.StatusCode, text)
			continue
		}
		if got != want {
			t.Errorf("%s makes it %+v, want %+v", body, got, want)
		}
		onDead := strings.TrimPrefix(want.PerKey.OnDead, "continue") // the default
		stored := fmt.Sprintf("PerKey:{MaxRunning:%d Rate:%s Burst:%d OnDead:%s} Fair:%v",
			want.PerKey.Max, want.PerKey.Rate, want.PerKey.Burst, onDead, want.Fair)
		if !strings.Contains(f.changed()[0], stored) {
			t.Errorf("%s stores %s", body, f.changed()[0])
		}
	}
}

// limitedQueue is a queue with limits and how it stands beside them.
func limitedQueue(name string, most, runs int, rate task.Rate, rested time.Duration) (
	task.Queue, store.Gate,
) {
	q := limits.DefaultQueue(name)
	q.MaxRunning, q.Rate = most, rate
	return q, store.Gate{Queue: name, Gate: admission.Gate{
		Limits: admission.LimitsOf(&q), Running: runs,
		Bucket: admission.Bucket{At: moment.Add(-rested).UnixMicro()},
	}}
}

// limitedFake has queues with and without limits. The fake says that tasks of all are ready.
func limitedFake() *fake {
	f := newFake()
	ten := task.Rate{Count: 10, Per: time.Second}
	for _, c := range []struct {
		name       string
		most, runs int
		rate       task.Rate
		rested     time.Duration
	}{
		{"full", 20, 20, task.Rate{}, 0},
		{"room", 20, 19, task.Rate{}, 0},
		{"fast", 0, 52, ten, 0},
		{"rested", 0, 0, ten, time.Minute},
		{"both", 2, 2, ten, 50 * time.Millisecond},
	} {
		q, g := limitedQueue(c.name, c.most, c.runs, c.rate, c.rested)
		f.queues = append(f.queues, q)
		f.gates = append(f.gates, g)
	}
	keys := limits.DefaultQueue("keys")
	keys.PerKey, keys.Fair = task.KeyLimits{MaxRunning: 1, Rate: ten}, true
	quick := limits.DefaultQueue("quick-keys")
	quick.PerKey.Rate = ten
	f.queues = append(f.queues, keys, quick)
	f.gates = append(f.gates, store.Gate{Queue: keys.Name, FullKeys: 3},
		store.Gate{Queue: quick.Name})
	for _, q := range []task.Queue{keys, quick} {
		for _, key := range []string{"ann", "bob", "müll"} {
			g := store.KeyGate{Queue: q.Name, Key: key}
			g.Limits = admission.KeyLimitsOf(&q)
			g.Bucket.At = moment.Add(-50 * time.Millisecond).UnixMicro()
			if key == "ann" {
				g.Running, g.Bucket.At = g.Limits.Running, moment.Add(-time.Minute).UnixMicro()
			}
			f.keyGates = append(f.keyGates, g)
		}
	}
	return f
}

func TestQueuesSayHowTheyStandBesideTheirLimits(t *testing.T) {
	f := limitedFake()
	a := newAPI(t, f, nil)
	want := map[string]*view.QueueLimits{
		"mail": nil, "scan": nil,
		"full":   {Running: 20, WaitingFor: view.WaitingFor{MaxRunning: true}},
		"room":   {Running: 19},
		"fast":   {Running: 52, WaitingFor: view.WaitingFor{Rate: true}},
		"rested": {},
		"both":   {Running: 2, WaitingFor: view.WaitingFor{MaxRunning: true, Rate: true}},
		"keys":   {FullKeys: 3, WaitingFor: view.WaitingFor{KeysAtLimit: 3}},

		"quick-keys": {},
	}
	type item struct {
		Name   string
		Limits *view.QueueLimits
	}
	var list struct{ Items []item }
	_, text := ask(t, a, "GET /v1/queues", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Items) != len(want) {
		t.Fatalf("%v %s", err, text)
	}
	if got := []string{"full,room,fast,rested,both,keys,quick-keys"}; !slices.Equal(f.gated, got) {
		t.Errorf("asked for %v, want %v: once, for those that have limits", f.gated, got)
	}
	for _, is := range list.Items {
		var alone item
		_, text := ask(t, a, "GET /v1/queues/"+is.Name, "")
		if err := json.Unmarshal([]byte(text), &alone); err != nil {
			t.Fatal(err)
		}
		for _, got := range []item{is, alone} {
			if diff := cmp.Diff(want[is.Name], got.Limits); diff != "" {
				t.Errorf("%s: %s", is.Name, diff)
			}
		}
		if has := strings.Contains(text, `"limits"`); has != (want[is.Name] != nil) {
			t.Errorf("limits of %s: %s", is.Name, text)
		}
	}
	if len(f.gated) != 1+7 {
		t.Errorf("asked %q: of queues without limits, too", f.gated)
	}
}

func TestLimitsHoldNothingBackWhereNothingIsReady(t *testing.T) {
	_, g := limitedQueue("q", 2, 2, task.Rate{Count: 1, Per: time.Hour}, 0)
	g.FullKeys = 4
	got := limitsOf(&limitGate{Gate: g}, moment.UnixMicro(), &task.Counts{Running: 2, Waiting: 9})
	if diff := cmp.Diff(&view.QueueLimits{Running: 2, FullKeys: 4}, got); diff != "" {
		t.Error(diff)
	}
}

func TestExplanationsTellOfLimits(t *testing.T) {
	a := newAPI(t, limitedFake(), nil)
	for queue, want := range map[string][]string{
		"full": {`"kind":"limit"`, "20 of 20 run", "rota queue set full --max-running N"},
		"fast": {`"kind":"rate"`, "At most 10 tasks of queue fast begin in 1s", `"until":"2026-10-01T12:00:00.223Z"`,
			"rota queue set fast --rate COUNT/TIME"},
		"both": {`"kind":"limit"`, `"kind":"rate"`, "may in 50ms"},
		"room": {`"reasons":[{"kind":"unserved"`},
		"keys": {`"kind":"key_limit"`, "3 group keys of queue keys run as many tasks at a time as each may, 1:",
			"rota queue set keys --key-max-running N"},
		"quick-keys": {`"reasons":[{"kind":"unserved"`},
	} {
		_, text := ask(t, a, "GET /v1/queues/"+queue+"/explain", "")
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %s: %s", queue, part, text)
			}
		}
		limited := queue != "room" && queue != "quick-keys"
		told := strings.Contains(text, `"limit"`) || strings.Contains(text, `"rate"`) ||
			strings.Contains(text, `"key_limit"`)
		if told != limited {
			t.Errorf("%s: %s", queue, text)
		}
	}
	f := limitedFake()
	f.tasks[1].Queue = "both"
	_, text := ask(t, newAPI(t, f, nil), "GET /v1/tasks/"+idOf(1).String()+"/explain", "")
	if !strings.Contains(text, `"kind":"limit"`) || !strings.Contains(text, `"kind":"rate"`) {
		t.Errorf("of a task: %s", text)
	}
}

// Only a ready task that has a key, of a queue that limits each, is asked about.
func TestExplanationsTellOfTheKeyOfATask(t *testing.T) {
	for name, c := range map[string]struct {
		queue, key string
		state      task.State
		asked      bool
		want       []string
		not        []string
	}{
		"as many run as may": {"keys", "ann", task.Ready, true,
			[]string{`"kind":"key_limit"`, `1 of 1 runs: group key \"ann\"`, "--key-max-running N",
				`"kind":"turn"`, `of group key \"ann\" at most 40 ready tasks come first`},
			[]string{`"kind":"rate"`, `"kind":"behind"`}},
		"they begin as fast as they may": {"keys", "müll", task.Ready, true,
			[]string{`"kind":"key_limit"`, `At most 10 tasks of group key \"müll\" begin in 1s`,
				`"until":"2026-10-01T12:00:00.173Z"`, "--key-rate COUNT/TIME"},
			[]string{`"kind":"limit"`}},
		"it has room": {"quick-keys", "ann", task.Ready, true, []string{`"kind":"behind"`},
			[]string{`"kind":"key_limit"`, `"kind":"turn"`}},
		"nobody knows its key": {"keys", "zoe", task.Ready, true, []string{`"kind":"turn"`},
			[]string{`"kind":"key_limit"`}},
		"it has no key": {"keys", "", task.Ready, false,
			[]string{"of the tasks without a key, which share one turn, at most 40"},
			[]string{`"kind":"key_limit"`}},
		"it waits":               {"keys", "ann", task.Waiting, false, []string{`"not_due"`}, nil},
		"it runs":                {"keys", "ann", task.Running, false, nil, []string{`"key_limit"`}},
		"no limits of each key":  {"full", "ann", task.Ready, false, []string{`"limit"`}, nil},
		"no limits of any other": {"mail", "ann", task.Ready, false, nil, []string{`limit"`}},
	} {
		f := limitedFake()
		f.tasks[1].Queue, f.tasks[1].GroupKey, f.tasks[1].State = c.queue, c.key, c.state
		_, text := ask(t, newAPI(t, f, nil), "GET /v1/tasks/"+idOf(1).String()+"/explain", "")
		for _, part := range c.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s is not in %s", name, part, text)
			}
		}
		for _, part := range c.not {
			if strings.Contains(text, part) {
				t.Errorf("%s: %s is in %s", name, part, text)
			}
		}
		var want []string
		if c.asked {
			want = []string{c.queue + ": " + c.key}
		}
		if !slices.Equal(f.keyed, want) {
			t.Errorf("%s: asked about %q, want %q", name, f.keyed, want)
		}
	}
}

func TestMetricsAndTheOverviewShowLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a scrape takes no time
		f := limitedFake()
		a := newAPI(t, f, nil)
		defer a.Close()
		_, text := ask(t, a, "GET /metrics", "")
		var got []string
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(line, "rota_queue_limit") {
				got = append(got, line)
			}
		}
		want := []string{
			`rota_queue_limit_full_keys{queue="keys"} 3`,
			`rota_queue_limit_max_running{queue="both"} 2`,
			`rota_queue_limit_max_running{queue="full"} 20`,
			`rota_queue_limit_max_running{queue="room"} 20`,
			`rota_queue_limit_running{queue="both"} 2`,
			`rota_queue_limit_running{queue="full"} 20`,
			`rota_queue_limit_running{queue="room"} 19`,
			`rota_queue_limited{limit="max_running",queue="both"} 1`,
			`rota_queue_limited{limit="max_running",queue="full"} 1`,
			`rota_queue_limited{limit="max_running",queue="room"} 0`,
			`rota_queue_limited{limit="per_key",queue="keys"} 1`,
			`rota_queue_limited{limit="rate",queue="both"} 1`,
			`rota_queue_limited{limit="rate",queue="fast"} 1`,
			`rota_queue_limited{limit="rate",queue="rested"} 0`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		var limited []string
		for _, q := range overviewOf(t, a).Queues {
			if q.Limited {
				limited = append(limited, q.Queue)
			}
		}
		slices.Sort(limited)
		if want := []string{"both", "fast", "full", "keys"}; !slices.Equal(limited, want) {
			t.Errorf("limited are %v, want %v", limited, want)
		}
	})
}

// However many scrape, and however many queues have limits, the store is asked once a second; and
// never where no queue has any.
func TestScrapesAskForLimitsOnceASecond(t *testing.T) {
	for _, c := range []struct {
		fake *fake
		want int
	}{{limitedFake(), 3}, {newFake(), 0}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, c.fake, nil)
			for range 30 {
				ask(t, a, "GET /metrics", "")
				time.Sleep(100 * time.Millisecond)
			}
			if got := len(c.fake.gated); got != c.want {
				t.Errorf("asked %d times in three seconds, want %d", got, c.want)
			}
		})
	}
}

// Nodes that did not take a change in are named, and else nothing is said of nodes.
func TestChangesNameTheNodesThatDoNotGoByThem(t *testing.T) {
	for call, want := range map[string]bool{
		"PUT /v1/queues/far":                   true,
		"PUT /v1/queues/mail":                  false,
		"PUT /v1/queues/mail/keys/far":         true,
		"PUT /v1/queues/mail/keys/near":        false,
		"POST /v1/queues/mail/keys/far/pause":  true,
		"POST /v1/queues/mail/keys/far/resume": true,
	} {
		body := `{}`
		if strings.HasPrefix(call, "PUT") && strings.Contains(call, "/keys/") {
			body = `{"weight":2}`
		}
		_, text := ask(t, newAPI(t, newFake(), nil), call, body)
		if got := strings.Contains(text, `"unheard":["b"]`); got != want ||
			strings.Contains(text, "unheard") != want {
			t.Errorf("%s: %s", call, text)
		}
	}
}
