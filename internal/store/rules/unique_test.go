package rules_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// Two tasks of one call want a key that nobody has: the second makes the first what it is itself.
func ExampleChooseUnique() {
	first := store.Unique{Key: "k", OnExisting: task.OnExistingKeep}
	second := store.Unique{Key: "k", OnExisting: task.OnExistingReplace, Order: 1}
	asks := rules.UniqueAsks([]store.Batch{{ID: 1, Queue: "q", Tasks: []store.Task{
		{N: 0, Unique: &first}, {N: 1, Unique: &second, Context: store.Value(`"new"`)},
	}}}, func(int64) bool { return false })
	c := rules.ChooseUnique(asks, nil)

	fmt.Println(c.Owners[rules.UniqueName{Queue: "q", Key: "k"}].ID.N)
	fmt.Println(c.Existing[task.ID{Batch: 1, N: 1}].Action)
	fmt.Println(string(*c.Replace[0].Edit.Context))
	// Output:
	// 0
	// replaced
	// "new"
}

// A key is a task's while it stands, not final, for as long as its row says.
func TestUniqueHolderFollowsFromHowTheTaskStands(t *testing.T) {
	running := func(f *rules.Fact) { f.Running = &store.Running{} }
	begun := func(f *rules.Fact) { f.Begun = true }
	for _, c := range []struct {
		name    string
		f       *rules.Fact
		row     rules.UniqueRow
		waits   bool // while it may be replaced
		has     bool // while it is unfinished
		waiting bool // and while it waits
	}{
		{"gone", nil, rules.UniqueRow{}, false, false, false},
		{"ready", fact(nil), rules.UniqueRow{}, true, true, true},
		{"running", fact(running), rules.UniqueRow{}, false, true, false},
		{"tried again", fact(begun), rules.UniqueRow{}, false, true, false},
		{"done", fact(ended(task.KindDone)), rules.UniqueRow{}, false, false, false},
		{"dead", fact(ended(task.KindFail)), rules.UniqueRow{}, false, false, false},
		{"cancelled", fact(ended(task.KindCancelled)), rules.UniqueRow{}, false, false, false},
		{"expired", fact(ended(task.KindExpired)), rules.UniqueRow{}, false, false, false},
		{"removed", fact(ended(task.KindRemoved)), rules.UniqueRow{}, false, false, false},
		{"a microsecond before its time", fact(nil), rules.UniqueRow{Until: now + 1}, true, true,
			true},
		{"at its time", fact(nil), rules.UniqueRow{Until: now}, false, false, false},
	} {
		for _, waiting := range []bool{false, true} {
			row, want := c.row, c.has
			row.ID = task.ID{Batch: 3, N: 1}
			if row.Waiting = waiting; waiting {
				want = c.waiting
			}
			h, has := row.Holder(c.f, now)
			if has != want || has && h != (rules.UniqueHolder{ID: row.ID, Waits: c.waits}) {
				t.Errorf("%s, while waiting %v: got %+v, %v, want %v", c.name, waiting, h, has, want)
			}
		}
	}
}

// chosen is what a choice comes to.
type chosen struct {
	Existing map[task.ID]store.Existing
	Owners   map[rules.UniqueName]task.ID
	Refused  map[int32]store.Refusal
	Becomes  map[task.ID]string // of tasks that are replaced
}

// oneByOne is ChooseUnique as it is promised: all calls one after the other, each on a copy of the
// keys as the one before left them, which it throws away when it is refused.
func oneByOne(
	asks []rules.UniqueAsk, of map[task.ID]store.Batch,
	held map[rules.UniqueName]rules.UniqueHolder,
) chosen {
	all := chosen{map[task.ID]store.Existing{}, map[rules.UniqueName]task.ID{},
		map[int32]store.Refusal{}, map[task.ID]string{}}
	has := maps.Clone(held)
	for i := 0; i < len(asks); {
		trial := chosen{maps.Clone(all.Existing), maps.Clone(all.Owners), all.Refused,
			maps.Clone(all.Becomes)}
		keys, refused := maps.Clone(has), false
		call := of[asks[i].ID].Call
		for n := 0; i < len(asks) && of[asks[i].ID].Call == call && (n == 0 || call != 0); n++ {
			a := &asks[i]
			i++
			if refused {
				continue
			}
			h, taken := keys[a.Name()]
			switch {
			case !taken:
				keys[a.Name()] = rules.UniqueHolder{ID: a.ID, Waits: true}
				trial.Owners[a.Name()] = a.ID
			case a.OnExisting == task.OnExistingRefuse:
				all.Refused[call] = store.Refusal{Call: call, ID: a.ID, First: h.ID}
				refused = true
			default:
				e := store.Existing{ID: a.ID, First: h.ID, Action: task.SubmittedKept}
				how := a.OnExisting
				if h.Waits && how != task.OnExistingKeep {
					e.Action = task.SubmittedReplaced
					if how == task.OnExistingDebounce {
						e.Action = task.SubmittedDebounced
					}
					due := fmt.Sprint(of[a.ID].Due)
					if a.KeepDue {
						due = dueOf(trial.Becomes[h.ID])
					}
					trial.Becomes[h.ID] = fmt.Sprint(a.ID, " due ", due)
				}
				trial.Existing[a.ID] = e
			}
		}
		if !refused {
			all, has = trial, keys
		}
	}
	return all
}

// dueOf is the due time in what a task becomes; "-" = its own.
func dueOf(becomes string) string {
	if becomes == "" {
		return "-"
	}
	var id, word, due string
	fmt.Sscan(becomes, &id, &word, &due)
	return due
}

func chooses(t *rapid.T) {
	var batches []store.Batch
	of := map[task.ID]store.Batch{}
	order := int32(0)
	for i := range rapid.IntRange(1, 6).Draw(t, "batches") {
		b := store.Batch{
			ID: int64(i) + 1, Queue: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "queue"),
			Call: rapid.Int32Range(0, 3).Draw(t, "call"), Due: int64(1000 * (i + 1)),
		}
		for n := range rapid.Int32Range(1, 4).Draw(t, "tasks") {
			id := task.ID{Batch: b.ID, N: n}
			one := store.Task{N: n, Context: store.Value(id.String())}
			if rapid.IntRange(0, 5).Draw(t, "wants") > 0 {
				how := []task.OnExisting{
					task.OnExistingKeep, task.OnExistingReplace, task.OnExistingDebounce,
				}
				if b.Call > 0 { // only of those nothing needs to be inserted
					how = append(how, task.OnExistingRefuse)
				}
				one.Unique = &store.Unique{
					Key:        rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
					OnExisting: rapid.SampledFrom(how).Draw(t, "how"),
					Waiting:    rapid.Bool().Draw(t, "waiting"),
				}
				one.Unique.KeepDue = one.Unique.OnExisting == task.OnExistingReplace &&
					rapid.Bool().Draw(t, "keep due")
			}
			b.Tasks = append(b.Tasks, one)
		}
		batches = append(batches, b)
	}
	// The tasks of a call ask one after the other; those of different calls may come mixed in
	// the batches.
	perm := rapid.Permutation([]int32{0, 1, 2, 3}).Draw(t, "order of calls")
	for _, call := range perm {
		for i := range batches {
			for k := range batches[i].Tasks {
				if u := batches[i].Tasks[k].Unique; u != nil && batches[i].Call == call {
					u.Order = order
					order++
				}
				of[task.ID{Batch: batches[i].ID, N: int32(k)}] = batches[i]
			}
		}
	}
	stands := rapid.Int64Range(0, 3).Draw(t, "stands")
	asks := rules.UniqueAsks(batches, func(id int64) bool { return id == stands })
	for _, a := range asks {
		if a.ID.Batch == stands {
			t.Fatalf("%v asks, and stands already", a.ID)
		}
	}
	held := map[rules.UniqueName]rules.UniqueHolder{}
	for i, key := range []string{"a", "b", "c"} {
		if is := rapid.IntRange(0, 3).Draw(t, "held"); is < 2 {
			held[rules.UniqueName{Queue: "q", Key: key}] = rules.UniqueHolder{
				ID: task.ID{Batch: 99, N: int32(i)}, Waits: is == 0,
			}
		}
	}
	want := oneByOne(asks, of, held)
	before := maps.Clone(held)
	c := rules.ChooseUnique(asks, held)
	got := chosen{c.Existing, map[rules.UniqueName]task.ID{}, c.Refused, map[task.ID]string{}}
	for name, a := range c.Owners {
		got.Owners[name] = a.ID
	}
	for _, a := range c.Replace {
		if got.Becomes[a.ID] != "" {
			t.Errorf("%v is replaced twice", a.ID)
		}
		due := "-"
		if a.Edit.Due != nil {
			due = fmt.Sprint(*a.Edit.Due)
		}
		got.Becomes[a.ID] = fmt.Sprint(string(*a.Edit.Context), " due ", due)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	if !maps.Equal(held, before) {
		t.Error("the keys that were given are others by now")
	}
	// Nobody is both: inserted and kept out, or of a refused call and told of.
	for id := range c.Existing {
		b := of[id]
		if c.Refuses(&b) {
			t.Errorf("%v is of a refused call and exists", id)
		}
	}
	refusals := c.Refusals()
	if !slices.IsSortedFunc(refusals, func(a, b store.Refusal) int {
		return cmp.Compare(a.Call, b.Call)
	}) || len(refusals) != len(c.Refused) {
		t.Errorf("refusals %+v", refusals)
	}
}

func TestUniqueKeysAreChosenAsIfOneByOne(t *testing.T) { rapid.Check(t, chooses) }

func FuzzUniqueKeysAreChosenAsIfOneByOne(f *testing.F) { f.Fuzz(rapid.MakeFuzz(chooses)) }
