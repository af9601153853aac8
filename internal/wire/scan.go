package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a value may nest. A scan takes no stack for it, only a bit.
const maxDepth = 1000

// nest remembers, one bit a level, which levels of a value are objects.
type nest struct {
	bits  [maxDepth/64 + 1]uint64
	depth int
}

func (n *nest) push(object bool) bool {
	if n.depth == maxDepth {
		return false
	}
	bit := uint64(1) << (n.depth & 63)
	if object {
		n.bits[n.depth>>6] |= bit
	} else {
		n.bits[n.depth>>6] &^= bit
	}
	n.depth++
	return true
}

func (n *nest) inObject() bool { return n.bits[(n.depth-1)>>6]>>((n.depth-1)&63)&1 == 1 }

// scanValue reads one value from i on, whatever it is, and returns where it ends. With a fault, end
// is where the fault is.
func scanValue(b []byte, i int) (end int, fault string) {
	var in nest
	for {
		i = skipSpace(b, i)
		if i == len(b) {
			return i, early
		}
		switch c := b[i]; {
		case c == '{' || c == '[':
			if !in.push(c == '{') {
				return i, fmt.Sprintf("nested deeper than %d", maxDepth)
			}
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // { and }, [ and ] are two apart
				in.depth--
				i++
				break
			}
			if c == '{' {
				if i, fault = scanName(b, i); fault != "" {
					return i, fault
				}
			}
			continue
		case c == '"':
			i, fault = scanString(b, i)
		case c == '-' || c-'0' <= 9:
			i, fault = scanNumber(b, i)
		default:
			i, fault = scanWord(b, i)
		}
		if fault != "" {
			return i, fault
		}
		var over bool
		if i, over, fault = in.after(b, i); over || fault != "" {
			return i, fault
		}
	}
}

// after reads what follows a value: the ends of what it completes, then the comma and, in an
// object, the name before the next value. It is over when nothing is open any more.
func (n *nest) after(b []byte, i int) (next int, over bool, fault string) {
	for n.depth > 0 {
		i = skipSpace(b, i)
		object := n.inObject()
		switch {
		case i == len(b):
			return i, false, early
		case b[i] == ',':
			if object {
				i, fault = scanName(b, skipSpace(b, i+1))
				return i, false, fault
			}
			return i + 1, false, ""
		case b[i] == '}' && object, b[i] == ']' && !object:
			n.depth--
			i++
		case object:
			return i, false, "expected , or }"
		default:
			return i, false, "expected , or ]"
		}
	}
	return i, true, ""
}

// early is the fault of a body that ends inside a value.
const early = "ends too early"

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// scanName reads a name and its colon.
func scanName(b []byte, i int) (end int, fault string) {
	if i == len(b) {
		return i, early
	}
	if b[i] != '"' {
		return i, "expected a name in quotes"
	}
	if i, fault = scanString(b, i); fault != "" {
		return i, fault
	}
	i = skipSpace(b, i)
	if i == len(b) {
		return i, early
	}
	if b[i] != ':' {
		return i, "expected :"
	}
	return i + 1, ""
}

// scanString reads the string that begins at i and returns where it ends, behind the quote.
func scanString(b []byte, i int) (end int, fault string) {
	for i++; ; i++ {
		switch i = scanPlain(b, i); {
		case i == len(b):
			return i, early
		case b[i] == '"':
			return i + 1, ""
		case b[i] < ' ':
			return i, fmt.Sprintf("character %U must be escaped in a string", b[i])
		default: // a backslash
			if i++; i == len(b) {
				return i, early
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(b, i+1); !ok {
					return i, `expected four hex digits behind \u`
				}
				i += 4
			default:
				return i, "no such escape"
			}
		}
	}
}

// scanPlain finds the first byte from i on that is a quote, a backslash or a control character,
// eight bytes at a time: x-ones&^x has the high bit of the lowest zero byte of x set, and none
// below it (Mycroft 1987); the same holds of x-n*ones&^x and the lowest byte below n.
func scanPlain(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^'"'*ones, w^'\\'*ones
		if m := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

func hex4(b []byte, i int) (v rune, ok bool) {
	if len(b)-i < 4 {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}

// scanNumber reads a number by JSON's grammar.
func scanNumber(b []byte, i int) (end int, fault string) {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, fault = scanDigits(b, i); fault != "" {
		return i, fault
	}
	if i < len(b) && b[i] == '.' {
		if i, fault = scanDigits(b, i+1); fault != "" {
			return i, fault
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return scanDigits(b, i)
	}
	return i, ""
}

func scanDigits(b []byte, i int) (end int, fault string) {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		if i == len(b) {
			return i, early
		}
		return i, "expected a digit"
	}
	return i, ""
}

func scanWord(b []byte, i int) (end int, fault string) {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word), ""
		}
	}
	return i, "expected a value"
}

// unescape decodes the text between a string's quotes, already scanned.
func unescape(raw []byte) (text []byte, fault string) {
	text = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			text = append(text, raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			r, _ := hex4(raw, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				var low rune
				if i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
					low, _ = hex4(raw, i+3)
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					return nil, "half a surrogate pair"
				}
				i += 6
			}
			if r == 0 {
				return nil, "must not contain NUL"
			}
			text = utf8.AppendRune(text, r)
		default: // quote, backslash, slash
			text = append(text, raw[i])
		}
	}
	return text, ""
}
