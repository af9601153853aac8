package frame

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// The fields of a submission that follow its flags, in this order. A queue or a stage that is left
// out is that of the task before; the first one's are empty.
const (
	subQueue = 1 << iota
	subStage
	subContext
	subPriority
	subDue
	subDelay
	subKey
	subKeyFor
	subGroupKey
	subMaxAttempts
	subTimeout
	subMeta
	subStartWithin
	subUnique
	subOnExisting
	subOrphan // no field: it is so
	subRef
	subAfter
	subIf
	subAll = 1<<iota - 1
)

// CutSubmissions appends the body of Submit without the contexts of more than long bytes: they
// belong at the cuts. Contexts go out as they are: each must be one JSON value. Due times are cut
// to milliseconds.
func CutSubmissions(b []byte, subs []task.Submission, long int) ([]byte, []wire.Cut) {
	return cutTasks(b, nil, subs, long)
}

// cutTasks appends a list of submissions.
func cutTasks(
	b []byte, cuts []wire.Cut, subs []task.Submission, long int,
) ([]byte, []wire.Cut) {
	b = appendNumber(b, len(subs))
	before := &task.Submission{}
	for i := range subs {
		s := &subs[i]
		b = binary.AppendUvarint(b, submissionFlags(before, s))
		if s.Queue != before.Queue {
			b = appendText(b, s.Queue)
		}
		if s.Stage != before.Stage {
			b = appendText(b, s.Stage)
		}
		if len(s.Context) > 0 {
			b, cuts = wire.AppendRaw(appendNumber(b, len(s.Context)), cuts, s.Context, long)
		}
		if s.Priority != 0 {
			b = appendSpell(b, s.Priority)
		}
		if !s.Due.IsZero() {
			b = appendMoment(b, s.Due)
		}
		if s.Delay != 0 {
			b = appendSpell(b, s.Delay)
		}
		if s.Key != "" {
			b = appendText(b, s.Key)
		}
		if s.KeyFor != 0 {
			b = appendSpell(b, s.KeyFor)
		}
		if s.GroupKey != "" {
			b = appendText(b, s.GroupKey)
		}
		if s.MaxAttempts != 0 {
			b = binary.AppendVarint(b, int64(s.MaxAttempts))
		}
		if s.Timeout != 0 {
			b = appendSpell(b, s.Timeout)
		}
		b = appendMeta(b, s.Meta)
		if s.StartWithin != 0 {
			b = appendSpell(b, s.StartWithin)
		}
		if s.Unique != nil {
			b = appendText(appendText(b, s.Unique.Key), string(s.Unique.While))
			b = appendSpell(b, s.Unique.For)
		}
		if s.OnExisting != "" {
			b = appendText(b, string(s.OnExisting))
		}
		b = appendAfter(b, s)
		before = s
	}
	return b, cuts
}

func submissionFlags(before, s *task.Submission) uint64 {
	return bit(subQueue, s.Queue != before.Queue) | bit(subStage, s.Stage != before.Stage) |
		bit(subContext, len(s.Context) > 0) | bit(subPriority, s.Priority != 0) |
		bit(subDue, !s.Due.IsZero()) | bit(subDelay, s.Delay != 0) | bit(subKey, s.Key != "") |
		bit(subKeyFor, s.KeyFor != 0) | bit(subGroupKey, s.GroupKey != "") |
		bit(subMaxAttempts, s.MaxAttempts != 0) | bit(subTimeout, s.Timeout != 0) |
		bit(subMeta, len(s.Meta) > 0) | bit(subStartWithin, s.StartWithin != 0) |
		bit(subUnique, s.Unique != nil) | bit(subOnExisting, s.OnExisting != "") |
		bit(subOrphan, s.Orphan) | bit(subRef, s.Ref != "") | bit(subAfter, len(s.After) > 0) |
		bit(subIf, s.If != "")
}

func bit(flag uint64, set bool) uint64 {
	if set {
		return flag
	}
	return 0
}

// ParseSubmissions reads the body of Submit. Contexts are parts of b.
func ParseSubmissions(b []byte) ([]task.Submission, error) {
	d := decoder{b: b}
	n := d.count("tasks", task.MaxSubmissions)
	subs := make([]task.Submission, n)
	before := &task.Submission{}
	d.list = "tasks"
	for d.n = 0; d.n < n && d.fault == nil; d.n++ {
		d.submission(before, &subs[d.n])
		before = &subs[d.n]
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return subs, nil
}

func (d *decoder) submission(before, s *task.Submission) {
	f := d.flags(subAll)
	s.Queue, s.Stage = before.Queue, before.Stage
	if f&subQueue != 0 {
		s.Queue = d.str("queue", "")
	}
	if f&subStage != 0 {
		s.Stage = d.str("stage", "")
	}
	if f&subContext != 0 {
		s.Context = d.opaque("context")
	}
	if f&subPriority != 0 {
		s.Priority = d.spell("priority")
	}
	if f&subDue != 0 {
		s.Due = d.moment("due")
		if d.fault == nil && (s.Due.Before(limits.MinTime) || !s.Due.Before(limits.MaxTime)) {
			d.failValue("due", "must lie in the years 2000 to 2199")
		}
	}
	if f&subDelay != 0 {
		s.Delay = d.spell("delay")
	}
	if f&subKey != 0 {
		s.Key = d.str("key", "")
	}
	if f&subKeyFor != 0 {
		s.KeyFor = d.spell("key_for")
	}
	if f&subGroupKey != 0 {
		s.GroupKey = d.str("group_key", before.GroupKey)
	}
	if f&subMaxAttempts != 0 {
		s.MaxAttempts = int(d.signed("max_attempts"))
	}
	if f&subTimeout != 0 {
		s.Timeout = d.spell("timeout")
	}
	if f&subMeta != 0 {
		s.Meta = d.meta()
	}
	if f&subStartWithin != 0 {
		s.StartWithin = d.spell("start_within")
	}
	if f&subUnique != 0 {
		was := cmp.Or(before.Unique, &task.Unique{})
		s.Unique = &task.Unique{
			Key:   d.str("unique.key", ""),
			While: task.While(d.str("unique.while", string(was.While))),
			For:   d.spell("unique.for"),
		}
	}
	if f&subOnExisting != 0 {
		s.OnExisting = task.OnExisting(d.str("on_existing", string(before.OnExisting)))
	}
	s.Orphan = f&subOrphan != 0
	if f&subRef != 0 {
		s.Ref = d.str("ref", "")
	}
	if f&subAfter != 0 {
		s.After = d.after()
	}
	if f&subIf != 0 {
		s.If = task.Condition(d.str("if", string(before.If)))
	}
}

// appendMeta writes the strings of a task in the order of their names; none takes no byte.
func appendMeta(b []byte, meta map[string]string) []byte {
	if len(meta) == 0 {
		return b
	}
	b = appendNumber(b, len(meta))
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		b = appendText(appendText(b, name), meta[name])
	}
	return b
}

// meta reads the strings of a task; nil = none.
func (d *decoder) meta() map[string]string {
	n := d.count("meta", limits.MaxMeta)
	if n == 0 {
		return nil
	}
	meta := make(map[string]string, n)
	for range n {
		name := d.str("meta", "")
		if _, twice := meta[name]; twice {
			d.fail("meta."+name, "comes twice")
		}
		meta[name] = d.str("meta."+name, "")
	}
	return meta
}

// AppendReceipts appends the answer to Submit: runs of ids, one behind the other. Before a run of
// tasks that were replaced, or debounced, a run of none says so.
func AppendReceipts(b []byte, receipts []task.Receipt) []byte {
	b = appendNumber(b, len(receipts))
	for i := 0; i < len(receipts); {
		first, n := receipts[i], 1
		for i+n < len(receipts) && receipts[i+n].Existing == first.Existing &&
			receipts[i+n].Action == first.Action && receipts[i+n].ID == after(receipts[i+n-1].ID) {
			n++
		}
		switch first.Action {
		case task.SubmittedReplaced:
			b = binary.AppendUvarint(b, 0)
		case task.SubmittedDebounced:
			b = binary.AppendUvarint(b, 1)
		}
		b = binary.AppendUvarint(b, uint64(n)<<1|bit(1, first.Existing))
		b = appendID(b, first.ID)
		i += n
	}
	return b
}

// ParseReceipts reads the answer to Submit.
func ParseReceipts(b []byte) ([]task.Receipt, error) {
	d := decoder{b: b}
	n := d.length("tasks", task.MaxSubmissions)
	receipts := make([]task.Receipt, 0, n)
	for d.fault == nil && len(receipts) < n {
		run := d.number("tasks")
		action := task.SubmittedCreated
		if run&1 == 1 {
			action = task.SubmittedKept
		}
		if run <= 1 && d.fault == nil {
			action = [...]task.Submitted{task.SubmittedReplaced, task.SubmittedDebounced}[run]
			run = d.number("tasks")
		}
		id := d.id("tasks")
		if run>>1 == 0 || run>>1 > uint64(n-len(receipts)) {
			d.fail("tasks", "a run of %d behind %d of %d", run>>1, len(receipts), n)
			break
		}
		for range run >> 1 {
			receipts = append(receipts, task.Receipt{
				ID: id, Existing: run&1 == 1, Action: action,
			})
			id = after(id)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return receipts, nil
}
