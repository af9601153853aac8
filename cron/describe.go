package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Language is one in which Describe speaks.
type Language int

const (
	English Language = iota // at 02:30 on Sunday, Europe/Berlin time
	Chinese                 // 周日 02:30（Europe/Berlin 时间）
)

// Describe says in a sentence when the schedule is due.
func (s *Schedule) Describe(l Language) string {
	var texts []string
	for i := range s.rules {
		r := &s.rules[i]
		switch {
		case l == Chinese:
			texts = append(texts, r.chinese())
		default:
			texts = append(texts, r.english())
		}
	}
	if l == Chinese {
		return strings.Join(texts, "；以及")
	}
	return strings.Join(texts, "; and ")
}

// single is the only value of a field.
func (f *field) single() (int, bool) {
	if len(f.parts) == 1 && f.parts[0].kind == kindValues && f.parts[0].lo == f.parts[0].hi {
		return f.parts[0].lo, true
	}
	return 0, false
}

// every is n when the field is */n and n divides how many values there are: */45 is not due every
// 45 minutes. It is 1 when the field is *.
func (f *field) every() int {
	p := f.parts[0]
	n := max(p.step, 1)
	if len(f.parts) > 1 || !strings.HasPrefix(f.text, "*") || (p.hi-p.lo+1)%n != 0 {
		return 0
	}
	return n
}

// everyText is an interval without the units that are none of: 1h30m.
func (r *rule) everyText() string {
	text := (time.Duration(r.every) * time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// times are the times of day when there are only a few of them.
func (r *rule) times() (list []string) {
	const few = 6
	if r.fields[minute].any() || r.fields[hour].any() {
		return nil
	}
	for s := 0; ; s++ {
		var ok bool
		if s, ok = r.timeOfDay(s); !ok {
			return list
		}
		if len(list) == few {
			return nil
		}
		text := fmt.Sprintf("%02d:%02d", s/3600, s/60%60)
		if r.second != 1 {
			text += fmt.Sprintf(":%02d", s%60)
		}
		list = append(list, text)
		if s == day-1 {
			return list
		}
	}
}

// english, with chinese below: what it says of the time, of the days, of the months and of the
// zone.
func (r *rule) english() string {
	if r.every > 0 {
		return "every " + r.everyText()
	}
	times := r.times()
	text := "at " + join(times, ", ", " and ")
	if times == nil {
		text = r.englishTime()
	}
	if days := r.englishDays(); days != "" {
		text += " " + days
	} else if times != nil {
		text += " every day"
	}
	if f := &r.fields[month]; !f.any() || f.every() > 1 {
		text += " in " + join(spans(f, monthName, " to "), ", ", " and ")
	}
	return text + ", " + r.zone.String() + " time"
}

func (r *rule) englishTime() string {
	unit := func(f *field, one string) string {
		switch n := f.every(); {
		case n == 1:
			return "every " + one
		case n > 1:
			return fmt.Sprintf("every %d %ss", n, one)
		}
		if v, ok := f.single(); ok {
			return fmt.Sprintf("at %s %d", one, v)
		}
		return "at " + one + "s " + join(spans(f, strconv.Itoa, " to "), ", ", " and ")
	}
	var parts []string
	switch n := r.fields[minute].every(); {
	case r.second == 1:
		parts = append(parts, unit(&r.fields[minute], "minute"))
	case n == 0:
		parts = append(parts, unit(&r.fields[second], "second"), unit(&r.fields[minute], "minute"))
	case n > 1:
		parts = append(parts, unit(&r.fields[second], "second"),
			fmt.Sprintf("of every %s minute", ordinal(n)))
	case r.fields[second].every() == 0:
		parts = append(parts, unit(&r.fields[second], "second"), "of every minute")
	default:
		parts = append(parts, unit(&r.fields[second], "second"))
	}
	f := &r.fields[hour]
	v, one := f.single()
	switch n := f.every(); {
	case n > 1:
		parts = append(parts, fmt.Sprintf("of every %s hour", ordinal(n)))
	case n == 0 && one:
		parts = append(parts, fmt.Sprintf("in hour %d", v))
	case n == 0:
		parts = append(parts, "in the hours "+join(spans(f, strconv.Itoa, " to "), ", ", " and "))
	case r.fields[minute].every() == 0:
		parts = append(parts, "of every hour")
	}
	return strings.Join(parts, " ")
}

func (r *rule) englishDays() string {
	var list []string
	if f := &r.fields[dayOfMonth]; !f.any() {
		var days []string
		for _, p := range f.parts {
			switch p.kind {
			case kindBeforeLast:
				if p.lo == 0 {
					list = append(list, "the last day of the month")
					continue
				}
				list = append(list, fmt.Sprintf("the day %d before the last of the month", p.lo))
			case kindLastWeekday:
				list = append(list, "the last weekday of the month")
			case kindNearest:
				list = append(list, fmt.Sprintf("the weekday nearest to the %s", ordinal(p.lo)))
			default:
				days = append(days, span(p, strconv.Itoa, " to ")...)
			}
		}
		if len(days) > 0 {
			list = append([]string{"day " + join(days, ", ", " and ") + " of the month"}, list...)
		}
	}
	if f := &r.fields[dayOfWeek]; !f.any() {
		for _, p := range f.parts {
			switch p.kind {
			case kindLast:
				list = append(list, fmt.Sprintf("the last %s of the month", dayName(p.lo)))
			case kindNth:
				list = append(list,
					fmt.Sprintf("the %s %s of the month", ordinal(p.nth), dayName(p.lo)))
			default:
				list = append(list, span(p, dayName, " to ")...)
			}
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "on " + join(list, ", ", " or ")
}

// spans are the parts of a field as texts.
func spans(f *field, name func(int) string, to string) (list []string) {
	for _, p := range f.parts {
		list = append(list, span(p, name, to)...)
	}
	return list
}

// span is a part as text; one with steps is its values.
func span(p part, name func(int) string, to string) (list []string) {
	switch {
	case p.lo == p.hi:
		return []string{name(p.lo)}
	case p.step <= 1:
		return []string{name(p.lo) + to + name(p.hi)}
	}
	for v := p.lo; v <= p.hi; v += p.step {
		list = append(list, name(v))
	}
	return list
}

func monthName(m int) string { return time.Month(m).String() }

func dayName(d int) string { return time.Weekday(d % 7).String() }

func ordinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 && n%10 >= 1 && n%10 <= 3 {
		suffix = [...]string{"", "st", "nd", "rd"}[n%10]
	}
	return strconv.Itoa(n) + suffix
}

// join writes a list with its last member joined in another way.
func join(list []string, between, last string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], between) + last + list[n-1]
	}
	return strings.Join(list, between)
}
