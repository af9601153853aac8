package sqlite

import (
	"errors"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

func (c *client) fired(f store.Firing) store.Fired {
	c.Helper()
	got, err := c.Fire(c.Context(), f)
	if err != nil {
		c.Fatal(err)
	}
	return got
}

func TestFiringManySchedulesCostsOneCommit(t *testing.T) {
	c := join(t, open(t, Config{}))
	list := c.plans(500)
	f := c.firing(list, true)
	if got := c.commits(func() { c.fired(f) }); got != 1 {
		t.Errorf("500 schedules with a task each: got %d commits, want 1", got)
	}
	if got := c.commits(func() { c.fired(f) }); got != 0 {
		t.Errorf("the same firing again: got %d commits, want none", got)
	}
}

func TestWhoLooksAfterSchedulesThatAreNotDueWritesNothing(t *testing.T) {
	c := join(t, open(t, Config{}))
	list := c.plans(10)
	c.fired(c.firing(list, true))
	c.settle(c.take())
	c.prune() // the history adds up what was done
	ctx := t.Context()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var look store.Firing
	for what, call := range map[string]func(){
		"reading": func() {
			_, err := c.Due(ctx, store.DueQuery{Until: c.clock() - 1e9})
			do(err)
			_, err = c.ScheduleKeys(ctx, 256)
			do(err)
			open, err := c.OpenFires(ctx, store.OpenQuery{})
			do(err)
			for _, o := range open {
				look.Ends = append(look.Ends, store.FireEnd{
					Schedule: o.Schedule, At: o.At, Task: o.Task, Seq: -1,
				})
			}
		},
		"putting what is there": func() {
			var change store.ScheduleChange
			for i := range list {
				change.Puts = append(change.Puts, store.SchedulePut{Schedule: list[i].Schedule})
			}
			_, err := c.ChangeSchedules(ctx, change)
			do(err)
		},
		"pruning": func() {
			_, err := c.Prune(ctx, 1000)
			do(err)
		},
	} {
		if got := c.commits(call); got != 0 {
			t.Errorf("%s: got %d commits, want none", what, got)
		}
	}
	if len(look.Ends) != 10 {
		t.Fatalf("%d fires are open, want 10", len(look.Ends))
	}
	if got := c.commits(func() { c.fired(look) }); got != 0 {
		t.Errorf("looking without learning anything: got %d commits, want none", got)
	}
}

// take takes what is ready.
func (c *client) take() (spans []store.Span) {
	c.Helper()
	got, err := c.Take(c.Context(), store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 1000})
	if err != nil {
		c.Fatal(err)
	}
	for i := range got.Spans {
		spans = append(spans, got.Spans[i].Span)
	}
	return spans
}

func TestWhatADeletedScheduleLeavesIsPrunedInPieces(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	calendar := task.Calendar{Name: "c", Skip: []string{"2026-12-25"}}
	put := store.SchedulePut{
		Schedule: limits.DefaultSchedule("s"), Since: c.clock() - 1, Then: store.Never,
	}
	put.Calendar = "c"
	for _, stage := range []string{"", "x"} {
		if put.Stage = stage; stage != "" {
			put.Version, put.Next, put.Calendar = 1, store.Never, ""
		}
		if _, err := c.ChangeSchedules(
			t.Context(), store.ScheduleChange{Puts: []store.SchedulePut{put}, Calendar: &calendar},
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteCalendar(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	const many = 2*piece + 7
	part := store.FirePart{Schedule: "s", Version: 2}
	for i := range int64(many) {
		part.Fires = append(part.Fires, store.Fire{
			At: c.clock() - i, Outcome: task.FireSkipped, Watch: i == 0,
		})
	}
	c.fired(store.Firing{Parts: []store.FirePart{part}})
	if err := c.DeleteSchedule(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if n := c.count("SELECT count(*) FROM fire"); n != many {
		t.Errorf("the deletion deleted fires itself: %d are left of %d", n, many)
	}
	if open, err := c.OpenFires(t.Context(), store.OpenQuery{}); err != nil || len(open) > 0 {
		t.Errorf("open fires of what is gone: %v, %v", open, err)
	}
	total := 0
	for n := 1; n > 0; total += n {
		var err error
		if n, err = c.Prune(t.Context(), 10*piece); err != nil || n > piece {
			t.Fatalf("%d rows were deleted at once, %v", n, err)
		}
	}
	if want := many + 1; total != want { // and an era
		t.Errorf("%d rows were pruned, want %d", total, want)
	}
	for _, table := range []string{"fire", "era", "schedule", "schedule_remains", "calendar"} {
		if n := c.count("SELECT count(*) FROM " + table); n != 0 {
			t.Errorf("table %s has %d rows", table, n)
		}
	}
}

func TestSchedulesStandAfterAReopening(t *testing.T) {
	path := t.TempDir() + "/rota.db"
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	c := join(t, s)
	list := c.plans(3)
	c.fired(c.firing(list[:2], true))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c = join(t, open(t, Config{Path: path}))
	// until the fired ones are due again, too, whenever in between the third was planned
	due, err := c.Due(t.Context(), store.DueQuery{Until: list[2].Next + 1000})
	if err != nil || len(due) != 3 {
		t.Errorf("due after a reopening: %v, %v", due, err)
	}
	want := map[string]int64{
		list[0].Name: list[0].Next + 1000, list[1].Name: list[1].Next + 1000,
		list[2].Name: list[2].Next,
	}
	for _, s := range due {
		if s.Next != want[s.Name] {
			t.Errorf("%s is due at %d after a reopening, want %d", s.Name, s.Next, want[s.Name])
		}
	}
	if open, err := c.OpenFires(t.Context(), store.OpenQuery{}); err != nil || len(open) != 2 {
		t.Errorf("open fires after a reopening: %v, %v", open, err)
	}
	if got := c.fired(c.firing(list[:1], true)); got.Parts[0].Refused != store.FireMoved {
		t.Errorf("fired again after a reopening: %+v", got)
	}
}

func TestTheReserveIsKeptFromFiresToo(t *testing.T) {
	s := open(t, Config{})
	c := join(t, s)
	list := c.plans(2)
	f := c.firing(list[:1], true)
	c.fired(f)
	s.reserve = 1 << 60
	if _, err := c.Fire(t.Context(), c.firing(list[1:], true)); !errors.Is(err, store.ErrFull) {
		t.Errorf("fire on a full disk: %v", err)
	}
	row := f.Parts[0].Fires[0]
	c.fired(store.Firing{
		Ends: []store.FireEnd{
			{Schedule: list[0].Name, At: row.At, Task: row.Task, Ended: task.KindDone},
		},
	})
	if open, err := c.OpenFires(t.Context(), store.OpenQuery{}); err != nil || len(open) > 0 {
		t.Errorf("open after the end of the task: %v, %v", open, err)
	}
}

// What is asked at every beat, or for every due time, looks at rows that answer it and at no
// others.
func TestQuestionsAboutSchedulesGoByIndex(t *testing.T) {
	s := open(t, Config{})
	for _, query := range []string{
		findSchedule, cursorOf, dueSchedules, openFires, openFiresOf, outcomeAt, firesFromNow,
		fireOfTask, oldestFires, newestFires, runsInto, newestOf, packOf, markAt, endFire,
		reopenFires, oldFires, oldEras, followerOf, haveDays, closeFires, lastButOne,
		dropRemainingOnes, dropRemainingEras,
	} {
		err := s.read(t.Context(), func(c *conn) error {
			lines, err := c.planOf(query)
			for _, plan := range lines {
				if strings.HasPrefix(plan, "SCAN") && !strings.Contains(plan, "json_each") ||
					strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("%s\n%s", query, plan)
				}
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
