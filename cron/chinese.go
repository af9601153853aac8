package cron

import (
	"fmt"
	"strconv"
	"strings"
)

func (r *rule) chinese() string {
	if r.every > 0 {
		return "每隔 " + r.everyText()
	}
	var text strings.Builder
	if f := &r.fields[month]; !f.any() || f.every() > 1 {
		text.WriteString(strings.Join(spans(f, chineseMonth, "至"), "、"))
		text.WriteString("，")
	}
	days := r.chineseDays()
	text.WriteString(days)
	if times := r.times(); times != nil {
		if days == "" {
			text.WriteString("每天")
		}
		text.WriteString(" " + strings.Join(times, "、"))
	} else {
		if days != "" {
			text.WriteString("，")
		}
		text.WriteString(r.chineseTime())
	}
	return strings.TrimSpace(text.String()) + "（" + r.zone.String() + " 时间）"
}

func (r *rule) chineseTime() string {
	unit := func(f *field, one string) string {
		switch n := f.every(); {
		case n == 1:
			return "每" + one
		case n > 1:
			return fmt.Sprintf("每 %d %s", n, one)
		}
		return "第 " + strings.Join(spans(f, strconv.Itoa, " 至 "), "、") + " " + one
	}
	var parts []string
	switch f := &r.fields[hour]; {
	case f.every() == 1:
		if r.fields[minute].every() == 0 {
			parts = append(parts, "每小时的")
		}
	case f.every() > 1:
		parts = append(parts, fmt.Sprintf("每 %d 小时的", f.every()))
	default:
		parts = append(parts, strings.Join(spans(f, strconv.Itoa, " 至 "), "、")+" 点的")
	}
	switch n := r.fields[minute].every(); {
	case r.second == 1:
		parts = append(parts, unit(&r.fields[minute], "分钟"))
	case n == 1 && r.fields[second].every() > 0:
		parts = append(parts, unit(&r.fields[second], "秒"))
	default:
		parts = append(parts, unit(&r.fields[minute], "分钟")+"的", unit(&r.fields[second], "秒"))
	}
	return strings.Join(parts, "")
}

func (r *rule) chineseDays() string {
	var list []string
	if f := &r.fields[dayOfMonth]; !f.any() {
		var days []string
		for _, p := range f.parts {
			switch p.kind {
			case kindBeforeLast:
				if p.lo == 0 {
					list = append(list, "每月最后一天")
					continue
				}
				list = append(list, fmt.Sprintf("每月倒数第 %d 天", p.lo+1))
			case kindLastWeekday:
				list = append(list, "每月最后一个工作日")
			case kindNearest:
				list = append(list, fmt.Sprintf("每月最接近 %d 日的工作日", p.lo))
			default:
				days = append(days, span(p, strconv.Itoa, " 至 ")...)
			}
		}
		if len(days) > 0 {
			list = append([]string{"每月 " + strings.Join(days, "、") + " 日"}, list...)
		}
	}
	if f := &r.fields[dayOfWeek]; !f.any() {
		var days []string
		for _, p := range f.parts {
			switch p.kind {
			case kindLast:
				list = append(list, "每月最后一个"+chineseDay(p.lo))
			case kindNth:
				list = append(list, fmt.Sprintf("每月第 %d 个%s", p.nth, chineseDay(p.lo)))
			default:
				days = append(days, span(p, chineseDay, "至")...)
			}
		}
		if len(days) > 0 {
			list = append(list, strings.Join(days, "、"))
		}
	}
	return strings.Join(list, "或")
}

func chineseMonth(m int) string { return strconv.Itoa(m) + " 月" }

func chineseDay(d int) string {
	return "周" + [...]string{"日", "一", "二", "三", "四", "五", "六"}[d%7]
}
