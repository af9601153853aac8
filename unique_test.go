package rota

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/task"
)

// only is a submission with a unique key.
func only(key, text string, how task.OnExisting) task.Submission {
	return task.Submission{Queue: "q", Context: []byte(text), Unique: &task.Unique{Key: key},
		OnExisting: how}
}

// Of what two nodes are given at the same instant one task comes to be, whatever becomes of the
// other.
func TestAUniqueKeyAtTwoNodesAtOnceHasOneOwner(t *testing.T) {
	nodes := members(t, Config{Store: database(t)}, "a", "b")
	at := speaks(t, nodes[0])
	hows := []task.OnExisting{task.OnExistingKeep, task.OnExistingReplace,
		task.OnExistingDebounce, task.OnExistingRefuse}
	says := map[task.OnExisting]task.Submitted{task.OnExistingKeep: task.SubmittedKept,
		task.OnExistingReplace:  task.SubmittedReplaced,
		task.OnExistingDebounce: task.SubmittedDebounced}
	first := [2]int{}
	for round := range 200 {
		how := hows[round%len(hows)]
		got := [2]task.Receipt{}
		refused := [2]bool{}
		ask := func(i int) func() error {
			return func() error {
				list, err := nodes[i].Submit(t.Context(), only("k", fmt.Sprint(i), how))
				if refused[i] = errors.Is(err, ErrConflict); err != nil {
					if refused[i] {
						return nil
					}
					return err
				}
				got[i] = list[0]
				return nil
			}
		}
		both(t, ask(0), ask(1))
		owner := 0
		if got[1].Action == task.SubmittedCreated {
			owner = 1
		}
		first[owner]++
		other := 1 - owner
		if got[owner].Action != task.SubmittedCreated || got[owner].Existing || refused[owner] {
			t.Fatalf("round %d: nobody made a task: %+v, refused %v", round, got, refused)
		}
		want := task.Receipt{ID: got[owner].ID, Existing: true, Action: says[how]}
		if how == task.OnExistingRefuse {
			want = task.Receipt{}
		}
		if got[other] != want || refused[other] != (how == task.OnExistingRefuse) {
			t.Fatalf("round %d, %s: got %+v (refused %v), want %+v", round, how, got[other],
				refused[other], want)
		}
		winner := owner
		if how == task.OnExistingReplace || how == task.OnExistingDebounce {
			winner = other
		}
		v, err := nodes[round%2].Task(t.Context(), got[owner].ID, 0)
		if err != nil || string(v.Context) != fmt.Sprint(winner) {
			t.Fatalf("round %d, %s: it has %s, %v", round, how, v.Context, err)
		}
		if err := at.Cancel(t.Context(), got[owner].ID); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d were made at a, %d at b", first[0], first[1])
}

// uniqueHouse is two nodes, of which the first works off q, one task at a time.
type uniqueHouse struct {
	*testing.T
	dsn   string
	nodes []*Node
	began chan string // contexts that a worker got
	end   chan struct{}
}

func newUniqueHouse(t *testing.T) *uniqueHouse {
	t.Helper()
	h := &uniqueHouse{T: t, dsn: database(t), began: make(chan string), end: make(chan struct{})}
	for _, name := range []string{"a", "b"} {
		n, err := Open(t.Context(), Config{Store: h.dsn, Name: name, Listen: "127.0.0.1:0",
			Beat: 100 * time.Millisecond, Capacity: 1})
		if err != nil {
			t.Fatal(err)
		}
		if name == "a" {
			n.Handle("q", func(ctx context.Context, o task.Handout) task.Outcome {
				for _, wait := range []func() bool{
					func() bool {
						select {
						case h.began <- string(o.Context):
							return true
						case <-ctx.Done():
							return false
						}
					},
					func() bool {
						select {
						case <-h.end:
							return true
						case <-ctx.Done():
							return false
						}
					},
				} {
					if !wait() {
						return task.Release()
					}
				}
				return task.Finish(nil)
			})
		}
		running(t, n)
		h.nodes = append(h.nodes, n)
	}
	return h
}

func (h *uniqueHouse) submit(node int, s task.Submission) task.Receipt {
	h.Helper()
	list, err := h.nodes[node].Submit(h.Context(), s)
	if err != nil {
		h.Fatal(err)
	}
	return list[0]
}

// begins wants a worker to get a context.
func (h *uniqueHouse) begins(want string) {
	h.Helper()
	select {
	case got := <-h.began:
		if got != want {
			h.Fatalf("a worker got %s, want %s", got, want)
		}
	case <-time.After(20 * time.Second):
		h.Fatalf("no worker got %s", want)
	}
}

// What one node has ready in its memory another one replaces, as a worker comes for it: the worker
// gets what replaced it, or the other node is told that the task was kept. A worker may hold a task
// ahead of its handler: that counts as handed out.
func TestATaskInOneNodesMemoryIsReplacedAtAnotherOrKept(t *testing.T) {
	h := newUniqueHouse(t)
	told := map[task.Submitted]int{}
	for round := range 100 {
		h.submit(0, task.Submission{Queue: "q", Context: []byte(`"before"`)})
		h.begins(`"before"`) // its worker is busy, and what comes waits in its memory
		first := h.submit(0, only("k", `"old"`, task.OnExistingRefuse))
		var next task.Receipt
		got := ""
		replace := func() error {
			list, err := h.nodes[1].Submit(t.Context(), only("k", `"new"`, task.OnExistingReplace))
			if err == nil {
				next = list[0]
			}
			return err
		}
		free := func() error {
			h.end <- struct{}{}
			select {
			case got = <-h.began:
			case <-time.After(20 * time.Second):
				return errors.New("its worker got nothing")
			}
			return nil
		}
		both(t, replace, free)
		told[next.Action]++
		want := map[task.Submitted]string{
			task.SubmittedReplaced: `"new"`, task.SubmittedKept: `"old"`,
		}[next.Action]
		if next.ID != first.ID || got != want {
			t.Fatalf("round %d: told %+v of %v, and the worker got %s", round, next, first.ID, got)
		}
		h.end <- struct{}{}
		if v, err := h.nodes[1].Task(
			t.Context(), first.ID, 20*time.Second,
		); err != nil || v.State != task.Done {
			t.Fatalf("round %d: %s, %v", round, v.State, err)
		}
	}
	t.Log(told)
}

// A transaction has the keys of its tasks for itself until it ends.
func TestAUniqueKeyInATransactionIsSeenWhenThatCommits(t *testing.T) {
	h := newUniqueHouse(t)
	conn, err := pgx.Connect(t.Context(), h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	inside := func(s ...task.Submission) (pgx.Tx, []task.Receipt, error) {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list, err := h.nodes[0].SubmitTx(t.Context(), tx, s...)
		return tx, list, err
	}
	end := func(f func(context.Context) error) {
		t.Helper()
		if err := f(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	must := func(list []task.Receipt, err error) task.Receipt {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	later := func(s task.Submission) task.Submission { s.Delay = time.Hour; return s }

	h.submit(1, later(only("first", "1", ""))) // the queue stands
	// Nobody knows whose the key will be: who asks is told to come again, others are not kept.
	tx, list, err := inside(later(only("new", "1", "")))
	if must(list, err).Action != task.SubmittedCreated {
		t.Fatalf("%+v", list)
	}
	if _, err := h.nodes[1].Submit(
		t.Context(), later(only("new", "2", "")),
	); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is open: %v, want %v", err, ErrBusy)
	}
	if got := h.submit(1, later(only("other", "2", ""))); got.Action != task.SubmittedCreated {
		t.Errorf("another key: %+v", got)
	}
	end(tx.Rollback)
	if got := h.submit(1, later(only("new", "2", ""))); got.Action != task.SubmittedCreated {
		t.Errorf("after a rollback: %+v", got)
	}
	tx, list, err = inside(later(only("newer", "1", "")))
	must(list, err)
	end(tx.Commit)
	if got := h.submit(1, only("newer", "2", "")); got.ID != list[0].ID ||
		got.Action != task.SubmittedKept {
		t.Errorf("after the commit: %+v, want %v", got, list[0].ID)
	}

	// What it replaces goes out as it was after a rollback, and as it is after the commit; until
	// then not at all, though a worker is free.
	for round, c := range []struct {
		commit bool
		want   string
	}{{false, `"old"`}, {true, `"new"`}} {
		key := fmt.Sprint("held ", round)
		h.submit(0, task.Submission{Queue: "q", Context: []byte(`"before"`)})
		h.begins(`"before"`)
		first := h.submit(0, only(key, `"old"`, ""))
		tx, list, err := inside(only(key, `"new"`, task.OnExistingReplace))
		if got := must(list, err); got.ID != first.ID || got.Action != task.SubmittedReplaced {
			t.Fatalf("replaced inside: %+v", got)
		}
		h.end <- struct{}{}
		select {
		case got := <-h.began:
			t.Fatalf("while it is open a worker got %s", got)
		case <-time.After(1500 * time.Millisecond): // longer than anybody waits for a key
		}
		if v, err := h.nodes[1].Task(t.Context(), first.ID, 0); err != nil ||
			string(v.Context) != `"old"` {
			t.Errorf("another node sees %s, %v", v.Context, err)
		}
		if c.commit {
			end(tx.Commit)
		} else {
			end(tx.Rollback)
		}
		h.begins(c.want)
		h.end <- struct{}{}
		if v, err := h.nodes[1].Task(
			t.Context(), first.ID, 20*time.Second,
		); err != nil || v.State != task.Done {
			t.Fatalf("in the end: %s, %v", v.State, err)
		}
	}

	// A refusal leaves the transaction usable, and nothing of the call in it.
	tx, _, err = inside(later(only("mine", "1", "")),
		later(only("newer", "1", task.OnExistingRefuse)))
	if !errors.Is(err, ErrConflict) {
		t.Errorf("refused inside: %v", err)
	}
	if _, err := tx.Exec(t.Context(), "CREATE TABLE own (x int)"); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	end(tx.Commit)
	if got := h.submit(1, later(only("mine", "2", ""))); got.Action != task.SubmittedCreated {
		t.Errorf("what a refused call wanted: %+v", got)
	}
}
