package wire

import "github.com/rotahq/rota/task"

var (
	submitFields     = []string{"tasks"}
	submissionFields = []string{"queue", "stage", "context", "priority", "due", "delay", "key",
		"key_for", "group_key",
		"max_attempts", "timeout", "meta", "start_within", "unique", "on_existing", "orphan", "ref",
		"after", "if"}
	uniqueFields  = []string{"key", "while", "for"}
	receiptFields = []string{"id", "existing", "action"}
)

// AppendSubmissions appends the body of POST /v1/tasks. Contexts go out as they are: each must be
// one JSON value. Due times are cut to milliseconds.
func AppendSubmissions(b []byte, subs []task.Submission) []byte {
	return append(appendTasks(append(b, `{"tasks":`...), subs), '}')
}

// appendTasks appends a list of submissions.
func appendTasks(b []byte, subs []task.Submission) []byte {
	b = append(b, '[')
	for i := range subs {
		s := &subs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"queue":`...)
		b = appendString(b, s.Queue)
		b = appendText(b, `,"stage":`, s.Stage)
		b = appendRaw(b, `,"context":`, s.Context)
		b = appendSpell(b, `,"priority":`, s.Priority)
		b = appendMoment(b, `,"due":`, s.Due)
		b = appendSpell(b, `,"delay":`, s.Delay)
		b = appendText(b, `,"key":`, s.Key)
		b = appendSpell(b, `,"key_for":`, s.KeyFor)
		b = appendText(b, `,"group_key":`, s.GroupKey)
		b = appendCount(b, `,"max_attempts":`, s.MaxAttempts)
		b = appendSpell(b, `,"timeout":`, s.Timeout)
		b = appendSpell(b, `,"start_within":`, s.StartWithin)
		b = appendUnique(b, s.Unique)
		b = appendText(b, `,"on_existing":`, string(s.OnExisting))
		b = appendStringMap(b, `,"meta":`, s.Meta)
		if s.Orphan {
			b = append(b, `,"orphan":true`...)
		}
		b = appendAfter(b, s)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendUnique(b []byte, u *task.Unique) []byte {
	if u == nil {
		return b
	}
	b = appendString(append(b, `,"unique":{"key":`...), u.Key)
	b = appendText(b, `,"while":`, string(u.While))
	return append(appendSpell(b, `,"for":`, u.For), '}')
}

// ParseSubmissions reads the body of POST /v1/tasks. Contexts are parts of b.
func ParseSubmissions(b []byte) ([]task.Submission, error) {
	var d decoder
	d.begin(b)
	var subs []task.Submission
	o := d.object(submitFields)
	for o.next() {
		var before task.Submission
		for a := d.array(task.MaxSubmissions); a.next(); {
			before = d.submission(&before)
			subs = add(subs, &a, before)
		}
	}
	o.need("tasks")
	if err := d.end("body"); err != nil {
		return nil, err
	}
	return subs, nil
}

func (d *decoder) submission(before *task.Submission) (s task.Submission) {
	o := d.object(submissionFields)
	for o.next() {
		switch o.name {
		case "queue":
			s.Queue = d.str(before.Queue)
		case "stage":
			s.Stage = d.str(before.Stage)
		case "context":
			s.Context = d.opaque()
		case "priority":
			s.Priority = d.duration()
		case "due":
			s.Due = d.time()
		case "delay":
			s.Delay = d.duration()
		case "key":
			s.Key = d.str("")
		case "key_for":
			s.KeyFor = d.duration()
		case "group_key":
			s.GroupKey = d.str(before.GroupKey)
		case "max_attempts":
			s.MaxAttempts = d.integer()
		case "timeout":
			s.Timeout = d.duration()
		case "meta":
			s.Meta = d.meta()
		case "start_within":
			s.StartWithin = d.duration()
		case "unique":
			s.Unique = d.unique()
		case "on_existing":
			s.OnExisting = task.OnExisting(d.str(string(before.OnExisting)))
		case "orphan":
			s.Orphan = d.boolean()
		case "ref":
			s.Ref = d.str("")
		case "after":
			s.After = d.after()
		case "if":
			s.If = task.Condition(d.str(string(before.If)))
		}
	}
	return s
}

func (d *decoder) unique() *task.Unique {
	var u task.Unique
	o := d.object(uniqueFields)
	for o.next() {
		switch o.name {
		case "key":
			u.Key = d.str("")
		case "while":
			u.While = task.While(d.str(""))
		case "for":
			u.For = d.duration()
		}
	}
	o.need("key")
	return &u
}

// AppendReceipts appends the answer to POST /v1/tasks.
func AppendReceipts(b []byte, receipts []task.Receipt) []byte {
	b = append(b, `{"tasks":[`...)
	for i, r := range receipts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendID(b, r.ID)
		if r.Existing {
			b = append(b, `,"existing":true`...)
		} else {
			b = append(b, `,"existing":false`...)
		}
		b = append(appendText(b, `,"action":`, string(r.Action)), '}')
	}
	return append(b, "]}"...)
}

// ParseReceipts reads the answer to POST /v1/tasks.
func ParseReceipts(b []byte) ([]task.Receipt, error) {
	d := decoder{lenient: true}
	d.begin(b)
	var receipts []task.Receipt
	var before task.Submitted
	for o := d.object(submitFields); o.next(); {
		for a := d.array(task.MaxSubmissions); a.next(); {
			var r task.Receipt
			f := d.object(receiptFields)
			for f.next() {
				switch f.name {
				case "id":
					r.ID = d.id()
				case "existing":
					r.Existing = d.boolean()
				case "action":
					r.Action = task.Submitted(d.str(string(before)))
					before = r.Action
				}
			}
			f.need("id")
			receipts = add(receipts, &a, r)
		}
	}
	if err := d.end("body"); err != nil {
		return nil, err
	}
	return receipts, nil
}
