package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// taskBook keeps the tasks that were submitted, one for each key, as a queue does.
type taskBook struct {
	mu    sync.Mutex
	tasks map[string]task.Submission
	order []string
	tries int
	lose  int // so many answers are lost: the task is stored, and an error is answered
	then  func(task.Submission)
}

func (b *taskBook) submit(_ context.Context, t task.Submission) error {
	b.mu.Lock()
	b.tries++
	if b.tasks == nil {
		b.tasks = map[string]task.Submission{}
	}
	if _, there := b.tasks[t.Key]; !there {
		b.order = append(b.order, t.Key)
	}
	b.tasks[t.Key] = t
	lost := b.lose > 0
	b.lose--
	b.mu.Unlock()
	if b.then != nil {
		b.then(t)
	}
	if lost {
		return store.ErrUnknown
	}
	return nil
}

func (b *taskBook) count() (tasks, tries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order), b.tries
}

func putActing(t *testing.T, s Store, n store.Notifier) {
	t.Helper()
	if _, err := s.ChangeNotifier(t.Context(), n.Name, store.Whole(n)); err != nil {
		t.Fatal(err)
	}
}

// runSender runs a sender that acts until stop is called.
func runSender(t *testing.T, conf Config) (stop func()) {
	t.Helper()
	s, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { s.Run(ctx) })
	return sync.OnceFunc(func() { cancel(); group.Wait() })
}

func TestAnEventBecomesOneTaskHoweverOftenItIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, book := model.New(time.Now), &taskBook{lose: 3}
		putActing(t, db, store.Notifier{
			Name: "修复", Kind: kindSubmit, On: []string{"queue.*"}, Queue: "repairs",
		})
		happen(t, db, "queue.unserved", "other", "queue.unserved")
		stop := runSender(t, Config{Store: db, Submit: book.submit})
		time.Sleep(time.Minute)
		stop()
		if tasks, tries := book.count(); tasks != 2 || tries != 5 {
			t.Fatalf("%d tasks after %d tries, want 2 after 5", tasks, tries)
		}
		first := book.tasks[book.order[0]]
		var event struct {
			Seq           int64
			Kind, Subject string
		}
		if err := json.Unmarshal(first.Context, &event); err != nil || event.Seq != 1 ||
			event.Kind != "queue.unserved" || event.Subject != "n0" {
			t.Errorf("the context is %s, %v", first.Context, err)
		}
		if first.Queue != "repairs" || first.KeyFor <= store.EventsKept {
			t.Errorf("submitted %+v", first)
		}
		list, err := db.Notifiers(t.Context())
		if err != nil || list[0].Served.Delivered != 3 || list[0].Served.Failing != 0 {
			t.Errorf("served %+v, %v", list[0].Served, err)
		}
	})
}

// dying is a store whose process dies before it notes what was delivered.
type dying struct{ Store }

func (dying) Advance(context.Context, string, int64, store.Progress) (bool, error) {
	return false, errors.New("the process is dead")
}

func TestAProcessThatDiesAfterItSubmittedMakesNoSecondTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, book := model.New(time.Now), &taskBook{}
		for _, name := range []string{"a", "b"} {
			putActing(t, db, store.Notifier{
				Name: name, Kind: kindSubmit, On: []string{"*"}, Queue: "q",
			})
		}
		happen(t, db, "node.offline")
		for range 3 {
			stop := runSender(t, Config{Store: dying{db}, Submit: book.submit})
			time.Sleep(time.Second)
			stop()
		}
		stop := runSender(t, Config{Store: db, Submit: book.submit})
		time.Sleep(time.Minute)
		stop()
		if tasks, tries := book.count(); tasks != 2 || tries < 4 {
			t.Errorf("%d tasks after %d tries, want one of each notifier", tasks, tries)
		}
	})
}

func TestWhatGoesRoundThroughANotifierIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		n := 0
		cause := func(kind, subject string) {
			n++
			if _, err := db.Append(t.Context(), []store.Event{
				{Key: fmt.Sprint(kind, n), Kind: kind, Subject: subject, Fields: map[string]string{
					"queue": subject, // of capacity.short
				}},
			}); err != nil {
				t.Error(err)
			}
		}
		// each task of q causes an event about q, one about the notifier, and one of its own
		book := &taskBook{}
		book.then = func(task.Submission) {
			cause("queue.unserved", "q")
			cause("audit.queue.pause", "q")
			cause("capacity.short", "q")
			cause("audit.notifier.put", "loop")
		}
		putActing(t, db, store.Notifier{
			Name: "loop", Kind: kindSubmit, On: []string{"*"}, Queue: "q",
		})
		cause("node.offline", "n1")
		stop := runSender(t, Config{Store: db, Submit: book.submit, Every: time.Second})
		time.Sleep(time.Hour)
		if tasks, _ := book.count(); tasks != 1 {
			t.Errorf("events of its own doing made %d tasks", tasks-1)
		}
		// what comes round another way is slowed down
		book.then = func(task.Submission) { cause("audit.task.cancel", "x"); cause("x", "y") }
		cause("node.offline", "n1")
		time.Sleep(100 * time.Second)
		stop()
		if tasks, _ := book.count(); tasks < 20 || tasks > 230 {
			t.Errorf("%d tasks in 100 s, want about two a second", tasks)
		}
	})
}

func TestAQueueThatRefusesIsTriedAgainAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		putActing(t, db, store.Notifier{
			Name: "a", Kind: kindSubmit, On: []string{"node.*"}, Queue: "q",
		})
		happen(t, db, "node.offline")
		var refuse atomic.Bool
		refuse.Store(true)
		submit := func(context.Context, task.Submission) error {
			if refuse.Load() {
				return store.ErrFull
			}
			return nil
		}
		stop := runSender(t, Config{Store: db, Submit: submit})
		time.Sleep(2 * time.Hour)
		list, err := db.Notifiers(t.Context())
		if err != nil || list[0].Served.Failing == 0 ||
			!strings.Contains(list[0].Served.Trouble, `submit to queue "q"`) {
			t.Errorf("served %+v, %v", list[0].Served, err)
		}
		if told := eventsOf(t, db, store.NotifierFailed); len(told) != 1 {
			t.Errorf("told %+v", told)
		}
		refuse.Store(false)
		time.Sleep(10 * time.Minute)
		stop()
		if told := eventsOf(t, db, store.NotifierOK); len(told) != 1 {
			t.Errorf("its end is told %d times", len(told))
		}
	})
}

func TestActingNotifiersAreChecked(t *testing.T) {
	for _, c := range []struct {
		n     store.Notifier
		wrong string
	}{
		{store.Notifier{Kind: kindSubmit, Queue: "邮件"}, ""},
		{store.Notifier{Kind: kindSubmit}, "body.queue"},
		{store.Notifier{Kind: kindSubmit, Queue: "a/b"}, "body.queue"},
		{store.Notifier{Kind: kindSubmit, Queue: "q", To: []string{"a@b"}}, "body.to"},
		{store.Notifier{Kind: kindSubmit, Queue: "q", Command: []string{"x"}}, "body.command"},
		{store.Notifier{Kind: kindRun, Command: []string{"sh", "-c", "true"}}, ""},
		{store.Notifier{Kind: kindRun}, "body.command"},
		{store.Notifier{Kind: kindRun, Command: []string{""}}, "body.command[0]"},
		{store.Notifier{Kind: kindRun, Command: []string{"x"}, Queue: "q"}, "body.queue"},
		{store.Notifier{Kind: "act"}, "body.kind"},
	} {
		c.n.Name, c.n.On = "n", []string{"*"}
		err := check(&c.n, nil)
		if (err != nil) != (c.wrong != "") ||
			err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.n, err, c.wrong)
		}
	}
	s, err := New(Config{Store: model.New(time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.PutNotifier(t.Context(), store.Notifier{
		Name: "n", Kind: kindRun, On: []string{"*"}, Command: []string{"true"},
	})
	if err == nil || !strings.Contains(err.Error(), "--allow-commands") {
		t.Errorf("a node that runs no commands took one: %v", err)
	}
}
