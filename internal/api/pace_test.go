package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestSubmissionIsLetInWhenItWillBeDoneInASecond(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name  string
		under int64
		rate  float64
		moved time.Duration // ago
		n     int64
		want  bool
	}{
		{"alone, however large", 0, 1, 0, 1 << 40, true},
		{"alone after a long silence", 0, 1, time.Hour, 1, true},
		{"little beside little", 4000, 1, 0, 4000, true},
		{"as much as a slow engine surely takes", swift - 1, 1, 0, 1, true},
		{"more than a slow engine takes", swift, 1, 0, 1, false},
		{"as much as a fast engine takes", 99_000, 100_000, 0, 1000, true},
		{"more than a fast engine takes", 99_000, 100_000, 0, 1001, false},
		{"nothing moved for a second", 1, 100_000, time.Second, 1, true},
		{"nothing moved for longer", 1, 100_000, time.Second + 1, 1, false},
	} {
		p := pace{under: c.under, rate: c.rate, moved: now.Add(-c.moved)}
		if got := p.admits(c.n, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestPaceLearnsFromWhatTookLongEnough(t *testing.T) {
	now := time.Unix(1000, 0)
	p := pace{rate: firstRate}
	learn := func(times int, ahead int64, took time.Duration) {
		for range times {
			p.begin(1, now)
			p.end(1, ahead, took, now)
		}
	}
	near := func(want float64) {
		t.Helper()
		if p.rate < want*0.95 || p.rate > want*1.05 {
			t.Errorf("the rate is %.0f, want about %.0f", p.rate, want)
		}
	}
	learn(100, swift/2-1, time.Minute) // too little to say anything
	near(firstRate)
	learn(20, 50_000, time.Second/2)
	near(100_000)
	learn(20, 50_000, 10*time.Second)
	near(5000)
	learn(20, swift/2, 0) // and what a slow engine is still given lets it be found fast again
	if p.rate < 1e6 {
		t.Errorf("the rate is %.0f", p.rate)
	}
}

// engineAt stores a weight per second, one submission after the other, as the real one does under
// load.
type engineAt struct {
	Engine
	turn chan struct{} // not a mutex, whose waiters would keep the bubble's clock from moving
	rate func() float64
}

func (e *engineAt) Submit(_ context.Context, tasks []task.Submission) ([]task.Receipt, error) {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	time.Sleep(time.Duration(float64(burden(tasks)) / e.rate() * float64(time.Second)))
	return make([]task.Receipt, len(tasks)), nil
}

// Sixty clients submit 1,000 tasks at a time as fast as they can, for 20 seconds; a second after a
// refusal they come again. In the middle of it the engine becomes five times slower.
func TestOverloadIsRefusedAndTheRestIsAnsweredInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		slow := func() bool {
			return time.Since(start) > 5*time.Second && time.Since(start) < 15*time.Second
		}
		e := &engineAt{Engine: newFake(), turn: make(chan struct{}, 1), rate: func() float64 {
			if slow() {
				return 10_000
			}
			return 50_000
		}}
		a := newAPI(t, e, nil)
		body := `{"tasks":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"q"},`, 1000), ",") +
			`]}`
		var mu sync.Mutex
		var taken, refused, late int
		var group sync.WaitGroup
		for range 60 {
			group.Go(func() {
				for time.Since(start) < 20*time.Second {
					began := time.Now()
					status, text := post(a, "/v1/tasks", strings.NewReader(body), int64(len(body)))
					took := time.Since(began)
					mu.Lock()
					switch {
					case status == 201:
						taken++
						if took > 1300*time.Millisecond && began.Sub(start) > 8*time.Second {
							// when it has noticed how slow the engine is
							late++
						}
					case status != 503 || took != 0 ||
						!strings.Contains(text, `"outcome":"unchanged"`):
						t.Errorf("%d after %v: %s", status, took, text)
					default:
						refused++
					}
					mu.Unlock()
					if status == 503 {
						time.Sleep(time.Second)
					}
				}
			})
		}
		group.Wait()
		if can := 10*50 + 10*10; taken < can*9/10 {
			t.Errorf("%d submissions were taken, of %d that could have been", taken, can)
		}
		if late > 0 {
			t.Errorf("%d of %d took too long", late, taken)
		}
		if refused == 0 {
			t.Error("nothing was refused")
		}
	})
}

// hanging never stores anything; everything else it does at once.
type hanging struct{ Engine }

func (hanging) Submit(ctx context.Context, _ []task.Submission) ([]task.Receipt, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestWorkersCallsPassWhenNothingCanBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a := newAPI(t, hanging{f}, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if err := a.gate.pass(1, func() error {
				_, err := a.conf.Engine.Submit(ctx, nil)
				return err
			}); err == nil {
				t.Error("the one that hung succeeded")
			}
		})
		time.Sleep(longestWait + 1)
		for _, call := range []struct {
			path, body string
			want       int
		}{
			{"/v1/tasks", `{"tasks":[{"queue":"q"}]}`, 503},
			{"/v1/tasks/report",
				fmt.Sprintf(`{"worker":"w1","reports":[{"id":"%v","token":%q,"outcome":"done"}]}`,
					idOf(3), token(0)), 200},
			{"/v1/workers/w1/beat", `{"incarnation":"i"}`, 200},
			{"/v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`, 200},
		} {
			if status, text := post(
				a, call.path, strings.NewReader(call.body), int64(len(call.body)),
			); status != call.want {
				t.Errorf("%s: %d %s", call.path, status, text)
			}
		}
		cancel(errors.New("over"))
		group.Wait()
		if a.gate.under != 0 {
			t.Errorf("%d is still said to be under way", a.gate.under)
		}
	})
}
