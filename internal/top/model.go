package top

import (
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Screen is what is shown.
type Screen int

// Screens, in the order of their keys 1 to 8. Behind them are those without a key: Keys, which
// lists the group keys of one queue.
const (
	Overview Screen = iota
	Queues
	Workers
	Tasks
	Groups
	Schedules
	Nodes
	Events
	Keys
	screens = iota
	onBar   = int(Keys)
)

// names are the screens' names.
var names = [screens]string{
	"overview", "queues", "workers", "tasks", "groups", "schedules", "nodes", "events", "keys",
}

// Tone is what a word means, shown as a colour.
type Tone int

// Tones of a cell.
const (
	Plain Tone = iota
	Good
	Busy // it goes on, and is worth a look
	Bad
	Quiet
	Picture // the text is one of ours, whose blanks count
)

// Cell is a word or a text of a list. Its text is from outside: it is made safe when it is drawn.
type Cell struct {
	Text string
	Tone Tone
}

// Row is one thing of a list.
type Row struct {
	ID    string // by which it is opened and acted on
	Cells []Cell
}

// List is what a Source answers for a screen. Heads that begin with # are of numbers.
type List struct {
	Heads []string
	Rows  []Row
	More  bool // there are more than are shown
	// Note is what is to be known of the list; of one without rows, why it has none.
	Note string
}

// Query asks for a list. Two that are equal are the same question.
type Query struct {
	Screen Screen
	State  task.State // of tasks; "" = any
	Queue  string     // of tasks, "" = any; of keys the one that they are of
}

// Thing names what is opened or acted on.
type Thing struct {
	Screen Screen
	ID     string
	Queue  string // of a key
}

// Verb is something that an operator does.
type Verb string

// Verbs.
const (
	Drain   Verb = "drain"
	Undrain Verb = "undrain"
	Cancel  Verb = "cancel"
	Retry   Verb = "retry"
	Pause   Verb = "pause"
	Resume  Verb = "resume"
)

// verbs are the keys of what can be done on a screen.
var verbs = map[Screen]map[string]Verb{
	Overview:  {"p": Pause, "P": Resume},
	Queues:    {"p": Pause, "P": Resume},
	Workers:   {"d": Drain, "D": Undrain},
	Tasks:     {"c": Cancel, "r": Retry},
	Groups:    {"p": Pause, "P": Resume},
	Schedules: {"p": Pause, "P": Resume},
	Keys:      {"p": Pause, "P": Resume},
}

// Effect is something that Run is to do. One field is set.
type Effect struct {
	Load    *Query
	Open    *Thing
	Act     *Action
	Quit    bool
	Suspend bool
}

// Action is a verb and what it is done to.
type Action struct {
	Verb Verb
	Thing
}

// Messages that a Model is updated by.
type (
	// Key is a key by its name: a character, or a word like up, enter, esc, ctrl+c.
	Key string
	// Tick says what time it is.
	Tick time.Time
	// Stand is a new overview, and when it came.
	Stand struct {
		Overview view.Overview
		At       time.Time
	}
	// Lost says why the overview cannot be followed any more.
	Lost struct{ Err error }
	// Loaded answers a Load.
	Loaded struct {
		Query
		List
		At  time.Time
		Err error
	}
	// Opened answers an Open.
	Opened struct {
		Thing
		Text string
		Err  error
	}
	// Acted answers an Act.
	Acted struct {
		Action
		Note string // what follows from it
		Err  error
	}
)

// Model is what is known, and where the reader stands. It is a value: Update answers with another.
type Model struct {
	Now    time.Time
	Stand  *view.Overview // nil = none came yet
	Came   time.Time      // when that was
	Paused bool           // what comes is not shown for now
	latest Stand          // that came while it was paused
	lost   string         // why nothing more will come; "" = it may
	past   []sample       // oldest first, at most maxPast

	Screen Screen
	State  task.State // of the tasks that are listed
	Queue  string
	keysOf string // the queue whose keys are listed
	before Screen // the one that Keys was opened from
	lists  map[Query]Loaded
	asked  map[Query]bool // questions under way
	places [screens]place
	filter string // of the list on the screen
	typing bool   // a filter is being typed

	detail *Opened // shown instead of the list
	scroll int     // its first line
	help   bool
	ask    *Action // waits for y or n
	note   string  // what became of the last action
	bad    bool    // it failed
}

// place is where the reader stands in a list.
type place struct{ cursor int }

// New is a model that knows nothing yet.
func New(now time.Time) Model {
	return Model{
		Now: now, State: task.Dead, lists: map[Query]Loaded{}, asked: map[Query]bool{},
	}
}

// query is the question that the screen's list answers.
func (m *Model) query() Query {
	q := Query{Screen: m.Screen}
	switch m.Screen {
	case Tasks:
		q.State, q.Queue = m.State, m.Queue
	case Keys:
		q.Queue = m.keysOf
	}
	return q
}

// thing names what a row of the screen's list stands for.
func (m *Model) thing(r Row) Thing {
	t := Thing{Screen: m.Screen, ID: r.ID}
	if m.Screen == Keys {
		t.Queue = m.keysOf
	}
	return t
}

// How old a list on the screen may be before it is read again. To count the tasks of keys a node
// looks at many rows.
const (
	staleList = 2 * time.Second
	staleKeys = 10 * time.Second
)

// fresh is for how long a list need not be read again.
func fresh(q Query) time.Duration {
	if q.Screen == Keys {
		return staleKeys
	}
	return staleList
}

// Update is the model after a message, and what is to be done.
func (m Model) Update(msg any) (Model, []Effect) {
	m.lists, m.asked = cloned(m.lists), cloned(m.asked)
	var do []Effect
	switch msg := msg.(type) {
	case Key:
		do = m.key(string(msg))
	case Tick:
		m.Now = time.Time(msg)
	case Stand:
		m.latest = msg
		m.lost = ""
		if !m.Paused {
			m.take()
		}
	case Lost:
		m.lost = msg.Err.Error()
	case Loaded:
		delete(m.asked, msg.Query)
		if msg.Err != nil { // what was there before is still worth something
			old := m.lists[msg.Query]
			old.Query, old.Err, old.At = msg.Query, msg.Err, msg.At
			msg = old
		}
		for q := range m.lists { // only the newest question of a screen is kept
			if q.Screen == msg.Screen && q != m.query() {
				delete(m.lists, q)
			}
		}
		m.lists[msg.Query] = msg
	case Opened:
		if m.detail != nil && m.detail.Thing == msg.Thing {
			m.detail = &msg
		}
	case Acted:
		m.acted(msg)
	}
	return m, append(do, m.load()...)
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// take shows the newest overview.
func (m *Model) take() {
	if m.latest.At.IsZero() || m.latest.At.Equal(m.Came) {
		return
	}
	o := m.latest.Overview
	m.Stand, m.Came = &o, m.latest.At
	m.past = append(slices.Clone(m.past), sampleOf(&o))
	m.past = m.past[max(len(m.past)-maxPast, 0):]
}

// load asks for the list on the screen when it is missing or old.
func (m *Model) load() []Effect {
	q := m.query()
	if m.Screen == Overview || m.asked[q] || m.Paused && !m.lists[q].At.IsZero() {
		return nil
	}
	if known, ok := m.lists[q]; ok && m.Now.Sub(known.At) < fresh(q) {
		return nil
	}
	m.asked[q] = true
	return []Effect{{Load: &q}}
}

// acted says what became of an action. The list is read again.
func (m *Model) acted(msg Acted) {
	m.bad = msg.Err != nil
	switch {
	case m.bad:
		m.note = msg.Err.Error()
	case msg.Note != "":
		m.note = string(msg.Verb) + " " + msg.ID + ": " + msg.Note
	default:
		m.note = string(msg.Verb) + " " + msg.ID + ": done"
	}
	for q, known := range m.lists {
		known.At = time.Time{}
		m.lists[q] = known
	}
}

// rows are those of the list on the screen that the filter lets through.
func (m *Model) rows() []Row {
	var all []Row
	if m.Screen == Overview {
		all = m.overviewRows()
	} else {
		all = m.lists[m.query()].Rows
	}
	if m.filter == "" {
		return all
	}
	words := strings.Fields(strings.ToLower(m.filter))
	var some []Row
	for _, r := range all {
		text := ""
		for _, c := range r.Cells {
			text += strings.ToLower(c.Text) + " "
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			some = append(some, r)
		}
	}
	return some
}

// current is the row under the cursor.
func (m *Model) current() (Row, bool) {
	rows := m.rows()
	if len(rows) == 0 {
		return Row{}, false
	}
	return rows[min(m.places[m.Screen].cursor, len(rows)-1)], true
}
