package wire

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// plain tells which bytes stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// appendString writes s in quotes. What a reader would refuse, bytes that are no UTF-8 and NUL,
// becomes U+FFFD: output of a strange program must not spoil the message that carries it.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			if c == 0 || c >= utf8.RuneSelf {
				b = append(b, "\uFFFD"...)
			} else {
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		i += size
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendID(b []byte, id task.ID) []byte {
	b = append(b, '"')
	b = id.Append(b)
	return append(b, '"')
}

func appendDuration(b []byte, d time.Duration) []byte {
	b = append(b, '"')
	b = append(b, d.String()...)
	return append(b, '"')
}

// appendTime writes RFC 3339 in UTC with milliseconds; what is shorter than one is cut off.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	ms := t.Nanosecond() / 1e6
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.' // was Z
	return append(b, '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z', '"')
}

// appendFloat writes f in the shortest form. JSON has no way to write NaN and the infinities: they
// become 0.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// The following write one more field, comma and name included, unless its value says nothing.

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

func appendRaw(b []byte, name string, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return append(append(b, name...), v...)
}

func appendSpell(b []byte, name string, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return appendDuration(append(b, name...), d)
}

func appendMoment(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return appendTime(append(b, name...), t)
}

func appendCount(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}
