package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// UniqueName names a unique key.
type UniqueName struct{ Queue, Key string }

// UniqueRow is what stands of a unique key: the task that got it last. Whether the task still has
// it follows from how the task stands.
type UniqueRow struct {
	ID      task.ID
	Waiting bool
	Until   int64 // 0 = as long as the task stands as it has to
}

// UniqueHolder is a task that has a unique key.
type UniqueHolder struct {
	ID task.ID
	// Waits: nobody has been handed the task, and nobody will be before Begin said so. Such a task
	// can be replaced.
	Waits bool
}

// Holder says whether the task still has the key, by how it stands; nil: it is gone. Of a task with
// steps Begun is known.
func (r *UniqueRow) Holder(f *Fact, now int64) (h UniqueHolder, has bool) {
	if f == nil || f.Base == store.Final || r.Until != 0 && r.Until <= now {
		return h, false
	}
	waits := f.Running == nil && !f.Begun
	if r.Waiting && !waits {
		return h, false
	}
	return UniqueHolder{r.ID, waits}, true
}

// UniqueAsk is a task of a submission that wants a unique key.
type UniqueAsk struct {
	*store.Unique
	ID    task.ID
	batch *store.Batch
	task  *store.Task
}

// Name is that of the key.
func (a *UniqueAsk) Name() UniqueName { return UniqueName{a.batch.Queue, a.Key} }

// Row is what is written when the task gets the key.
func (a *UniqueAsk) Row() UniqueRow { return UniqueRow{a.ID, a.Waiting, a.Until} }

// UniqueAsks are the tasks that want unique keys, in their order, of those batches that do not
// stand yet.
func UniqueAsks(batches []store.Batch, stands func(batch int64) bool) (list []UniqueAsk) {
	for i := range batches {
		b := &batches[i]
		if !WantsUnique(b) || stands(b.ID) {
			continue
		}
		for k := range b.Tasks {
			if t := &b.Tasks[k]; t.Unique != nil {
				list = append(list, UniqueAsk{t.Unique, task.ID{Batch: b.ID, N: t.N}, b, t})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b UniqueAsk) int { return cmp.Compare(a.Order, b.Order) })
	return list
}

// WantsUnique tells whether any task of a batch wants a unique key.
func WantsUnique(b *store.Batch) bool {
	return slices.ContainsFunc(b.Tasks, func(t store.Task) bool { return t.Unique != nil })
}

// UniqueChoice is what becomes of the tasks of a submission that want unique keys.
type UniqueChoice struct {
	Existing map[task.ID]store.Existing // those that are not inserted
	Owners   map[UniqueName]*UniqueAsk  // who gets a key
	Refused  map[int32]store.Refusal    // calls of which nothing is inserted
	Replace  []store.Action             // of tasks that wait, each once, for when all is inserted
}

// Refuses tells whether nothing of a batch is to be inserted.
func (c *UniqueChoice) Refuses(b *store.Batch) bool {
	if c == nil || b.Call == 0 {
		return false
	}
	_, refused := c.Refused[b.Call]
	return refused
}

// Refusals are the refused calls, by number.
func (c *UniqueChoice) Refusals() []store.Refusal {
	return slices.SortedFunc(maps.Values(c.Refused), func(a, b store.Refusal) int {
		return cmp.Compare(a.Call, b.Call)
	})
}

// ExistingIn are the tasks of a batch that are not inserted, in their order.
func (c *UniqueChoice) ExistingIn(b *store.Batch) (list []store.Existing) {
	if c == nil || len(c.Existing) == 0 {
		return nil
	}
	for i := range b.Tasks {
		if e, ok := c.Existing[task.ID{Batch: b.ID, N: b.Tasks[i].N}]; ok {
			list = append(list, e)
		}
	}
	return list
}

// ChooseUnique lets tasks ask for their keys, one after the other, and says what becomes of each.
// held are the keys that tasks have. A call that is refused leaves everything as it was before it.
func ChooseUnique(asks []UniqueAsk, held map[UniqueName]UniqueHolder) *UniqueChoice {
	c := choosing{held: held, edits: map[task.ID]int{}, UniqueChoice: &UniqueChoice{
		Existing: map[task.ID]store.Existing{}, Owners: map[UniqueName]*UniqueAsk{},
		Refused: map[int32]store.Refusal{},
	}}
	for len(asks) > 0 {
		n := 1
		for call := asks[0].batch.Call; call != 0 && n < len(asks) && asks[n].batch.Call == call; {
			n++
		}
		c.ask(asks[:n])
		asks = asks[n:]
	}
	return c.UniqueChoice
}

// choosing is ChooseUnique in progress.
type choosing struct {
	*UniqueChoice
	held  map[UniqueName]UniqueHolder
	edits map[task.ID]int // where the action on a task stands in Replace
}

// ask lets the tasks of one call ask, or a task of a call that is not refused as a whole.
func (c *choosing) ask(asks []UniqueAsk) {
	own := map[UniqueName]*UniqueAsk{}
	found := make([]UniqueHolder, len(asks)) // zero = the key is free
	for i := range asks {
		a := &asks[i]
		holder, taken := c.holder(a.Name(), own)
		if !taken {
			own[a.Name()] = a
			continue
		}
		if found[i] = holder; a.OnExisting == task.OnExistingRefuse {
			c.Refused[a.batch.Call] = store.Refusal{
				Call: a.batch.Call, ID: a.ID, First: holder.ID,
			}
			return
		}
	}
	for name, a := range own {
		c.Owners[name] = a
	}
	for i := range asks {
		if found[i].ID != (task.ID{}) {
			c.exists(&asks[i], found[i])
		}
	}
}

// holder is the task that has a key by now: one that asked just now, or before, or one that stood.
func (c *choosing) holder(
	name UniqueName, own map[UniqueName]*UniqueAsk,
) (h UniqueHolder, taken bool) {
	a := cmp.Or(own[name], c.Owners[name])
	if a != nil {
		return UniqueHolder{a.ID, true}, true
	}
	h, taken = c.held[name]
	return h, taken
}

// exists says what becomes of a task whose key another one has.
func (c *choosing) exists(a *UniqueAsk, h UniqueHolder) {
	e := store.Existing{ID: a.ID, First: h.ID, Action: task.SubmittedKept}
	if h.Waits {
		switch a.OnExisting {
		case task.OnExistingReplace:
			e.Action = task.SubmittedReplaced
		case task.OnExistingDebounce:
			e.Action = task.SubmittedDebounced
		}
	}
	c.Existing[a.ID] = e
	if e.Action == task.SubmittedKept {
		return
	}
	edit := a.edit()
	at, again := c.edits[h.ID]
	if !again {
		c.edits[h.ID] = len(c.Replace)
		c.Replace = append(c.Replace, store.Action{
			ID: h.ID, Kind: task.KindEdited, By: "submission", Fenced: true, Edit: edit,
		})
		return
	}
	if edit.Due == nil {
		edit.Due = c.Replace[at].Edit.Due
	}
	c.Replace[at].Edit = edit
}

// edit is what makes of a task that waits the one that asks.
func (a *UniqueAsk) edit() *store.Edit {
	e := &store.Edit{
		Stage: &a.task.Stage, Context: &a.task.Context, Priority: new(a.batch.Due - a.batch.Rank),
		Meta: &a.task.Meta,
	}
	if !a.KeepDue {
		e.Due = &a.batch.Due
	}
	return e
}
