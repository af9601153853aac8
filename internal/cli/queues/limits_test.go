package queues

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func TestLimitsOfAQueueAreWritten(t *testing.T) {
	hundred := task.Rate{Count: 100, Per: time.Second}
	stands := func(running int, most, rate bool) *view.QueueLimits {
		return &view.QueueLimits{Running: running,
			WaitingFor: view.WaitingFor{MaxRunning: most, Rate: rate}}
	}
	keys := func(full int) *view.QueueLimits {
		return &view.QueueLimits{FullKeys: full, WaitingFor: view.WaitingFor{KeysAtLimit: full}}
	}
	for name, c := range map[string]struct {
		is                   task.Queue
		limits               *view.QueueLimits
		word, conf, of, held string
	}{
		"none":       {task.Queue{}, nil, "open", "", "", ""},
		"none, held": {task.Queue{Paused: true}, nil, "paused", "", "", ""},
		"room": {task.Queue{MaxRunning: 20}, stands(7, false, false), "open", "max-running 20",
			"at most 20 run at a time, and 7 do", ""},
		"full": {task.Queue{MaxRunning: 20}, stands(20, true, false), "limited", "max-running 20",
			"at most 20 run at a time, and 20 do", "max-running: 20 of 20 run"},
		"fast": {task.Queue{Rate: hundred}, stands(3, false, true), "limited",
			"rate 100/1s burst 100", "at most 100 in 1s begin, 100 at once after a rest",
			"rate: at most 100 in 1s begin"},
		"both": {task.Queue{MaxRunning: 2, Rate: hundred, Burst: 5, Paused: true},
			stands(2, true, true), "paused", "max-running 2 rate 100/1s burst 5",
			"at most 2 run at a time, and 2 do; at most 100 in 1s begin, 5 at once after a rest",
			"max-running: 2 of 2 run; rate: at most 100 in 1s begin"},
		"keys": {task.Queue{PerKey: task.KeyLimits{MaxRunning: 1}}, keys(3), "limited",
			"key-max-running 1 key-on-dead continue", "of each group key tasks go one after another",
			"key-max-running: 3 group keys run as many as each may, 1"},
		"one key": {task.Queue{PerKey: task.KeyLimits{MaxRunning: 2, Rate: hundred}, Fair: true},
			keys(1), "limited", "key-max-running 2 key-rate 100/1s key-burst 100 fair true",
			"of each group key at most 2 run at a time, and at most 100 in 1s begin, " +
				"100 at once after a rest; group keys take turns",
			"key-max-running: 1 group key runs as many as it may, 2"},
		"both, and fast keys": {task.Queue{MaxRunning: 2, PerKey: task.KeyLimits{Rate: hundred,
			Burst: 7}}, stands(1, false, false), "open",
			"max-running 2 key-rate 100/1s key-burst 7", "at most 2 run at a time, and 1 do; " +
				"of each group key at most 100 in 1s begin, 7 at once after a rest", ""},
		"fair": {task.Queue{Fair: true}, nil, "open", "fair true", "group keys take turns", ""},
		"of an answer that does not say how it stands": {task.Queue{MaxRunning: 20}, nil, "open",
			"max-running 20", "at most 20 run at a time", ""},
	} {
		q := client.Queue{Queue: c.is, Limits: c.limits}
		if word := Word(&q); word != c.word || ansi.Strip(painted(&q)) != c.word {
			t.Errorf("%s: is %s, want %s", name, word, c.word)
		}
		var s term.Sheet
		limitLines(&s, &q)
		if conf := strings.Join(strings.Fields(ansi.Strip(s.String())), " "); conf != c.conf {
			t.Errorf("%s: set by %q, want %q", name, conf, c.conf)
		}
		if of, held := LimitsText(&q), heldText(&q); of != c.of || held != c.held {
			t.Errorf("%s: %q, held by %q, want %q and %q", name, of, held, c.of, c.held)
		}
	}
}
