package cron

import (
	"fmt"
	"strings"
	"time"
)

// Options say what an expression itself does not.
type Options struct {
	Zone *time.Location // whose times of day are meant; nil = UTC
	Name string         // of the schedule: chooses what H stands for; without one H is an error
}

// maxText is how long an expression may be.
const maxText = 1000

// longestEvery bounds @every: what is meant to be rarer has a date.
const longestEvery = 366 * 24 * time.Hour

// Parse reads an expression; see the package's comment. Errors are *SyntaxError. An expression that
// is never due is one, too.
func Parse(text string, o Options) (*Schedule, error) {
	if len(text) > maxText {
		return nil, &SyntaxError{
			Text: text, Message: fmt.Sprintf("%d characters: at most %d", len(text), maxText),
		}
	}
	s := &Schedule{text: text, zone: o.Zone}
	if s.zone == nil {
		s.zone = time.UTC
	}
	for at := 0; ; {
		end := len(text)
		if i := strings.IndexByte(text[at:], ';'); i >= 0 {
			end = at + i
		}
		p := parser{text: text, at: at, end: end, zone: s.zone, name: o.Name}
		r, err := p.rule()
		if err != nil {
			return nil, err
		}
		s.rules = append(s.rules, r)
		if end == len(text) {
			return s, nil
		}
		at = end + 1
	}
}

// parser reads one expression of several.
type parser struct {
	text    string
	at, end int // the rest of it
	zone    *time.Location
	name    string
}

func (p *parser) fail(at, n int, format string, args ...any) error {
	return &SyntaxError{Text: p.text, At: at, Len: n, Message: fmt.Sprintf(format, args...)}
}

// word reads up to the next space.
func (p *parser) word() (at, end int) {
	for p.at < p.end && space(p.text[p.at]) {
		p.at++
	}
	at = p.at
	for p.at < p.end && !space(p.text[p.at]) {
		p.at++
	}
	return at, p.at
}

func space(c byte) bool { return c == ' ' || c == '\t' }

func (p *parser) rule() (rule, error) {
	begin := p.at
	at, end := p.word()
	if name, ok := cutPrefixes(p.text[at:end], "CRON_TZ=", "TZ="); ok {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "" || name == "Local" {
			return rule{},
				p.fail(end-len(name), len(name),
					"unknown time zone: write it as in CRON_TZ=Europe/Berlin")
		}
		p.zone, begin = zone, end
		at, end = p.word()
	}
	if at == end {
		return rule{},
			p.fail(begin, 0,
				"nothing stands here: write five fields, as in 30 2 * * MON, or six with seconds in front")
	}
	if p.text[at] == '@' {
		return p.macro(at, end)
	}
	words := [][2]int{{at, end}}
	for at, end := p.word(); at < end; at, end = p.word() {
		if len(words) == 6 {
			return rule{},
				p.fail(at, p.end-at,
					"too much: there are five fields, or six with seconds in front, and none for years")
		}
		words = append(words, [2]int{at, end})
	}
	whole := words[len(words)-1][1] - at
	if len(words) < 5 {
		return rule{},
			p.fail(at, whole,
				"%d fields: five are needed (minute, hour, day of month, month, day of week), or six with seconds in front",
				len(words))
	}
	r := rule{zone: p.zone}
	first := 6 - len(words)
	if first == 1 {
		r.fields[second] = field{text: "0", parts: []part{{kind: kindValues}}}
	}
	places := places()
	for i, w := range words {
		index := first + i
		in := reader{place: places[index], index: index, text: p.text, name: p.name}
		f, err := in.read(w[0], w[1])
		if err != nil {
			return rule{}, err
		}
		r.fields[index] = f
	}
	r.compile()
	if _, ok := r.local(dayOf(1970, 1, 1)*day, 2400); !ok {
		return rule{}, p.fail(at, whole, "it is never due: no year has such a day")
	}
	return r, nil
}

// compile turns fields into sets.
func (r *rule) compile() {
	f := &r.fields
	r.second = f[second].values()
	r.minute = f[minute].values()
	r.hour = f[hour].values()
	r.month = f[month].values()
	r.elapsed = strings.HasPrefix(f[hour].text, "*")
	d := &r.days
	d.anyOfMonth, d.anyOfWeek = f[dayOfMonth].any(), f[dayOfWeek].any()
	d.ofMonth = f[dayOfMonth].values()
	d.ofWeek = f[dayOfWeek].values()
	d.ofWeek = d.ofWeek&0x7f | d.ofWeek>>7 // 7 is Sunday
	for _, p := range f[dayOfMonth].parts {
		switch p.kind {
		case kindBeforeLast:
			d.beforeLast |= 1 << p.lo
		case kindNearest:
			d.nearest |= 1 << p.lo
		case kindLastWeekday:
			d.lastWeekday = true
		}
	}
	for _, p := range f[dayOfWeek].parts {
		switch p.kind {
		case kindLast:
			d.last |= 1 << p.lo
		case kindNth:
			d.nth[p.nth] |= 1 << p.lo
		}
	}
}

// macro reads a word with @.
func (p *parser) macro(at, end int) (rule, error) {
	word := strings.ToLower(p.text[at:end])
	if word == "@every" {
		return p.every()
	}
	if from, to := p.word(); from < to {
		return rule{}, p.fail(from, p.end-from, "nothing may stand behind %s", word)
	}
	var fields string
	switch word {
	case "@yearly", "@annually":
		fields = "0 0 1 1 *"
	case "@monthly":
		fields = "0 0 1 * *"
	case "@weekly":
		fields = "0 0 * * 0"
	case "@daily", "@midnight":
		fields = "0 0 * * *"
	case "@hourly":
		fields = "0 * * * *"
	case "@reboot":
		return rule{},
			p.fail(at, end-at, "a schedule has no reboot: submit a task when your program starts")
	default:
		return rule{},
			p.fail(at, end-at,
				"known are @yearly, @monthly, @weekly, @daily, @hourly and @every DURATION")
	}
	in := parser{text: fields, end: len(fields), zone: p.zone}
	return in.rule()
}

func (p *parser) every() (rule, error) {
	at, end := p.word()
	d, err := time.ParseDuration(p.text[at:end])
	switch {
	case at == end || err != nil:
		return rule{},
			p.fail(at, end-at, "@every needs a duration, as in @every 90s or @every 1h30m")
	case d < time.Second || d%time.Second != 0 || d > longestEvery:
		return rule{},
			p.fail(at, end-at, "@every takes whole seconds, 1s to %dh", longestEvery/time.Hour)
	}
	if from, to := p.word(); from < to {
		return rule{}, p.fail(from, p.end-from, "nothing may stand behind the duration")
	}
	return rule{every: int64(d / time.Second), zone: p.zone}, nil
}

func cutPrefixes(s string, prefixes ...string) (string, bool) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest, true
		}
	}
	return s, false
}
