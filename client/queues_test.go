package client

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func TestQueueChangeSendsOnlyWhatIsSet(t *testing.T) {
	timeout, none, factor := time.Minute, time.Duration(0), 1.5
	var body string
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = r.Method + " " + r.URL.Path + " " + string(b)
		io.WriteString(w,
			`{"name":"q","timeout":"1m0s","retry":{"initial":"1s","factor":1.5},"paused":true,"counts":{"ready":3},"oldest_ready":null,"later":1}`)
	})
	c := newClient(t, Config{Servers: []string{url}})
	q, err := c.PutQueue(t.Context(), "q", QueueChange{
		Timeout: &timeout, Retention: &none, Retry: &RetryChange{Factor: &factor},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `PUT /v1/queues/q {"timeout":"1m0s","retry":{"factor":1.5},"retention":"0s"}`; body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
	if q.Name != "q" || q.Timeout != time.Minute || q.Retry.Initial != time.Second ||
		q.Retry.Factor != 1.5 || !q.Paused || q.Counts.Ready != 3 || !q.OldestReady.IsZero() {
		t.Errorf("read %+v", q)
	}
	text, err := json.Marshal(q)
	var again Queue
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, q) {
		t.Errorf("%s is read as %+v, want %+v", text, again, q)
	}
}

func TestLimitsOfAQueueAreSentAndRead(t *testing.T) {
	var body string
	answer := `{"name":"q","max_running":20,"rate":"100/1s","burst":30,` +
		`"limits":{"running":20,"waiting_for":{"max_running":true,"rate":false}}}`
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		io.WriteString(w, answer)
	})
	c := newClient(t, Config{Servers: []string{url}})
	rate := task.Rate{Count: 100, Per: time.Second}
	q, err := c.PutQueue(t.Context(), "q",
		QueueChange{MaxRunning: new(20), Rate: &rate, Burst: new(30)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"max_running":20,"rate":"100/1s","burst":30}`; body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
	if q.MaxRunning != 20 || q.Rate != rate || q.Burst != 30 || q.Limits == nil ||
		*q.Limits != (view.QueueLimits{
			Running: 20, WaitingFor: view.WaitingFor{MaxRunning: true},
		}) {
		t.Errorf("read %+v, %+v", q, q.Limits)
	}
	text, err := json.Marshal(q)
	again := Queue{Limits: &view.QueueLimits{}}
	if err != nil || json.Unmarshal(text, &again) != nil || again.Limits == nil ||
		*again.Limits != *q.Limits || again.Queue != q.Queue {
		t.Errorf("%s is read as %+v", text, again)
	}
	_, err = c.PutQueue(t.Context(), "q",
		QueueChange{MaxRunning: new(0), Rate: &task.Rate{}, Burst: new(0)})
	if want := `{"max_running":0,"rate":"","burst":0}`; err != nil || body != want {
		t.Errorf("sent %s, want %s; %v", body, want, err)
	}
	answer = `{"name":"q","max_running":0,"rate":"","burst":0}` // nothing is left of them
	if err := json.Unmarshal([]byte(answer), &again); err != nil || again.Limits != nil ||
		again.MaxRunning != 0 || again.Rate != (task.Rate{}) {
		t.Errorf("%s is read as %+v, %v", answer, again, err)
	}
}

func TestLimitsOfEachKeyAreSentAndRead(t *testing.T) {
	var body string
	answer := `{"name":"q","per_key":{"max_running":2,"rate":"5/1s","burst":7},"fair":true,` +
		`"limits":{"running":0,"full_keys":3,"waiting_for":{"keys_at_limit":3}}}`
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		io.WriteString(w, answer)
	})
	c := newClient(t, Config{Servers: []string{url}})
	rate := task.Rate{Count: 5, Per: time.Second}
	var q Queue
	for want, change := range map[string]QueueChange{
		`{"per_key":{"max_running":2,"rate":"5/1s","burst":7},"fair":true}`: {
			PerKey: &KeyLimitsChange{MaxRunning: new(2), Rate: &rate, Burst: new(7)},
			Fair:   new(true),
		},
		`{"per_key":{"max_running":0,"rate":"","burst":0}}`: {
			PerKey: &KeyLimitsChange{MaxRunning: new(0), Rate: &task.Rate{}, Burst: new(0)},
		},
		`{"per_key":{"burst":1}}`: {PerKey: &KeyLimitsChange{Burst: new(1)}},
		`{"per_key":{}}`:          {PerKey: &KeyLimitsChange{}},
		`{"fair":false}`:          {Fair: new(false)},
		`{}`:                      {},
	} {
		var err error
		if q, err = c.PutQueue(t.Context(), "q", change); err != nil || body != want {
			t.Errorf("sent %s, want %s; %v", body, want, err)
		}
	}
	limits := task.KeyLimits{MaxRunning: 2, Rate: rate, Burst: 7}
	stands := view.QueueLimits{FullKeys: 3, WaitingFor: view.WaitingFor{KeysAtLimit: 3}}
	if q.PerKey != limits || !q.Fair || q.Limits == nil || *q.Limits != stands {
		t.Errorf("read %+v, %+v", q, q.Limits)
	}
	text, err := json.Marshal(q)
	again := Queue{}
	if err != nil || json.Unmarshal(text, &again) != nil || again.PerKey != limits ||
		again.Queue != q.Queue || *again.Limits != stands {
		t.Errorf("%s is read as %+v", text, again)
	}
	answer = `{"per_key":{"max_running":0,"rate":"","burst":0},"fair":false}` // nothing is left
	if err := json.Unmarshal([]byte(answer), &again); err != nil || again.Fair ||
		again.PerKey != (task.KeyLimits{}) {
		t.Errorf("%s is read as %+v, %v", answer, again, err)
	}
}
