package top

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// states are those that s goes through on the screen of tasks; "" = any.
var states = []task.State{
	task.Dead, task.Running, task.Ready, task.Waiting, task.Blocked, task.Done, task.Cancelled,
	task.Expired, "",
}

// key does what a key means where the reader stands.
func (m *Model) key(k string) []Effect {
	switch {
	case k == "ctrl+c":
		return []Effect{{Quit: true}}
	case k == "ctrl+z":
		return []Effect{{Suspend: true}}
	case m.ask != nil:
		return m.answer(k)
	case m.typing:
		m.typeFilter(k)
		return nil
	}
	m.note, m.bad = "", false
	switch {
	case m.help:
		m.help = false
		return nil
	case m.detail != nil:
		return m.detailKey(k)
	}
	return m.listKey(k)
}

// answer goes on with y, and with nothing else.
func (m *Model) answer(k string) []Effect {
	act := m.ask
	m.ask = nil
	if k != "y" && k != "Y" {
		m.note = string(act.Verb) + " " + act.ID + ": not done"
		return nil
	}
	m.note, m.bad = string(act.Verb)+" "+act.ID+" …", false
	return []Effect{{Act: act}}
}

// longestFilter is in bytes.
const longestFilter = 100

func (m *Model) typeFilter(k string) {
	switch k {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	case "space":
		m.filter += " "
	default:
		if r, n := utf8.DecodeRuneInString(k); n == len(k) && unicode.IsPrint(r) &&
			len(m.filter)+n <= longestFilter {
			m.filter += k
		}
	}
	m.places[m.Screen] = place{}
}

func (m *Model) detailKey(k string) []Effect {
	switch k {
	case "q":
		return []Effect{{Quit: true}}
	case "esc", "left", "h", "backspace", "enter":
		m.detail, m.scroll = nil, 0
	case "up", "k":
		m.scroll--
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll -= page
	case "pgdn", "space":
		m.scroll += page
	case "home", "g":
		m.scroll = 0
	case "end", "G":
		m.scroll = 1 << 20
	case "?":
		m.help = true
	case "t", "K":
		if (m.detail.Screen == Queues || m.detail.Screen == Overview) && m.detail.Err == nil {
			queue := m.detail.ID
			m.detail, m.scroll = nil, 0
			m.showOf(queue, k)
		}
	default:
		if verb, known := verbs[m.detail.Screen][k]; known {
			m.ask = &Action{verb, m.detail.Thing}
		}
	}
	m.scroll = max(m.scroll, 0)
	return nil
}

// page is how many lines a page key moves: about what is seen of a list at 24 lines.
const page = 12

func (m *Model) listKey(k string) []Effect {
	at := &m.places[m.Screen]
	last := max(len(m.rows())-1, 0)
	at.cursor = min(at.cursor, last) // the list may have shrunk
	switch k {
	case "q":
		return []Effect{{Quit: true}}
	case "?":
		m.help = true
	case "tab", "right", "l":
		m.show((m.shown() + 1) % Screen(onBar))
	case "shift+tab", "left", "h":
		m.show((m.shown() + Screen(onBar) - 1) % Screen(onBar))
	case "up", "k":
		at.cursor = max(at.cursor-1, 0)
	case "down", "j":
		at.cursor = min(at.cursor+1, last)
	case "pgup":
		at.cursor = max(at.cursor-page, 0)
	case "pgdn":
		at.cursor = min(at.cursor+page, last)
	case "home", "g":
		at.cursor = 0
	case "end", "G":
		at.cursor = last
	case "/":
		m.typing, m.filter = true, ""
	case "esc":
		switch {
		case m.filter != "":
			m.filter = ""
		case m.Screen == Keys:
			m.show(m.before)
		default:
			m.Queue = ""
		}
	case "space":
		if m.Paused = !m.Paused; !m.Paused {
			m.take()
		}
	case "enter":
		return m.open()
	default:
		m.letter(k)
	}
	return nil
}

// letter are keys that name a screen, or that mean something on one only.
func (m *Model) letter(k string) {
	if len(k) == 1 && k[0] >= '1' && k[0] < '1'+byte(onBar) {
		m.show(Screen(k[0] - '1'))
		return
	}
	row, some := m.current()
	switch {
	case m.Screen == Tasks && k == "s":
		i := slices.Index(states, m.State)
		m.State = states[(i+1)%len(states)]
		m.places[Tasks] = place{}
	case !some:
	case (m.Screen == Queues || m.Screen == Overview) && (k == "t" || k == "K"):
		m.showOf(row.ID, k)
	default:
		if verb, known := verbs[m.Screen][k]; known {
			m.ask = &Action{verb, m.thing(row)}
		}
	}
}

// show turns to a screen, where its reader was.
func (m *Model) show(s Screen) {
	if s != m.Screen {
		m.filter = ""
	}
	m.Screen = s
}

// showOf turns to what a queue has: its tasks by t, its group keys by K.
func (m *Model) showOf(queue, k string) {
	if k == "K" {
		m.before, m.keysOf = m.Screen, queue
		m.show(Keys)
	} else {
		m.show(Tasks)
		m.Queue, m.State = queue, ""
	}
	m.places[m.Screen] = place{}
}

// shown is the screen that stands out on the bar: behind Keys it is the one with their queue.
func (m *Model) shown() Screen {
	if m.Screen == Keys {
		return m.before
	}
	return m.Screen
}

// open shows all of what is under the cursor.
func (m *Model) open() []Effect {
	row, some := m.current()
	if !some || row.ID == "" {
		return nil
	}
	thing := m.thing(row)
	m.detail, m.scroll = &Opened{Thing: thing}, 0
	return []Effect{{Open: &thing}}
}

// asking is the question before something is done.
func asking(a *Action) string {
	what := strings.TrimSuffix(names[a.Screen], "s")
	switch a.Screen {
	case Overview:
		what = "queue"
	case Keys:
		what = "group key"
	}
	text := string(a.Verb) + " " + what + " " + term.OneLine(a.ID)
	if a.Screen == Keys {
		text += " of queue " + term.OneLine(a.Queue)
	}
	return text + "? y/n"
}
