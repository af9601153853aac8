package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// A key that a browser can't write in a path stands in the query.
func TestKeysMayStandInTheQuery(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	for _, key := range []string{".", "..", "a/b"} {
		for _, x := range []struct{ call, body, want string }{
			{"POST /v1/queues/mail/keys/-/pause?key=" + key, "", `"paused":true`},
			{"POST /v1/queues/mail/keys/-/resume?key=" + key, "", `"paused":false`},
			{"PUT /v1/queues/mail/keys/-?key=" + key, `{"weight":5}`, `"weight":5`},
		} {
			response, text := ask(t, a, x.call, x.body)
			if response.StatusCode != 200 || !strings.Contains(text, x.want) ||
				!strings.Contains(text, `"key":"`+key+`"`) {
				t.Errorf("%s: %d %s", x.call, response.StatusCode, text)
			}
		}
	}
	for _, call := range []string{
		"POST /v1/queues/mail/keys/acme/pause?key=", "POST /v1/queues/mail/keys/acme/resume?key=",
		"POST /v1/queues/mail/keys/acme/pause?kee=b", "POST /v1/queues/mail/keys/acme/resume?kee=b",
	} {
		if response, text := ask(t, a, call, ""); response.StatusCode != 422 {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
	}
}

// A key says what holds its tasks back: the first reason in the order in which they bind.
func TestKeysSayWhatHoldsThemBack(t *testing.T) {
	now := moment.UnixMicro()
	in := func(seconds int64) string {
		return `"` + time.UnixMicro(now+seconds*1e6).UTC().Format("2006-01-02T15:04:05.000Z") + `"`
	}
	free := admission.Gate{Limits: admission.Limits{Running: 1}}
	full, slow := free, admission.Gate{Bucket: admission.Bucket{At: now}}
	full.Running = 1
	slow.Limits.Rate = admission.Rate{Rate: task.Rate{Count: 1, Per: 2 * time.Second}}
	paused := func(g admission.Gate, until int64) admission.Gate {
		g.Paused = until
		return g
	}
	other := task.ID{Batch: store.BatchID(now, 0)}
	for _, c := range []struct {
		gate  *store.KeyGate // nil = it has no limits
		state view.KeyState
		opens string
	}{
		{nil, view.KeyOpen, "null"},
		{&store.KeyGate{Gate: free}, view.KeyOpen, "null"},
		{&store.KeyGate{Gate: full}, view.KeyFull, "null"},
		{&store.KeyGate{Gate: full, Owner: other}, view.KeyFull, "null"},
		{&store.KeyGate{Gate: slow}, view.KeyRate, in(2)},
		{&store.KeyGate{Gate: free, Owner: other}, view.KeyOrder, "null"},
		{&store.KeyGate{Gate: slow, Owner: other}, view.KeyOrder, "null"},
		{&store.KeyGate{Gate: free, Owner: other, Stopped: true}, view.KeyStopped, "null"},
		{&store.KeyGate{Gate: paused(full, admission.Always)}, view.KeyPaused, "null"},
		{&store.KeyGate{Gate: paused(slow, now+5e6)}, view.KeyPaused, in(5)},
	} {
		f := newFake()
		f.queues[0].PerKey.MaxRunning = 1
		f.rules = map[string]store.KeyRule{"": {Queue: "mail", Key: "ann", Weight: 2}}
		if c.gate != nil {
			c.gate.Queue, c.gate.Key = "mail", "ann"
			f.keyGates = []store.KeyGate{*c.gate}
		}
		a := newAPI(t, f, nil)
		want := fmt.Sprintf(`"state":%q,"opens_at":%s`, c.state, c.opens)
		_, text := ask(t, a, "GET /v1/queues/mail/keys", "")
		if !strings.Contains(text, want) {
			t.Errorf("want %s: %s", want, text)
		}
	}
}

// Of a queue that neither limits its keys nor has rules of some nothing more is asked.
func TestKeysThatNothingHoldsBackAreNotAskedAbout(t *testing.T) {
	f := newFake()
	f.queues[0].Fair = true
	_, text := ask(t, newAPI(t, f, nil), "GET /v1/queues/mail/keys", "")
	if len(f.keyed) > 0 || !strings.Contains(text, `"state":"paused","opens_at":null`) {
		t.Errorf("asked of %q: %s", f.keyed, text)
	}
}
