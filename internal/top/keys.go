package top

import (
	"bytes"
	"unicode/utf8"
)

// sequences are what terminals send for keys that are no characters.
var sequences = map[string]Key{
	"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
	"\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
	"\x1b[H": "home", "\x1b[F": "end", "\x1bOH": "home", "\x1bOF": "end",
	"\x1b[1~": "home", "\x1b[4~": "end", "\x1b[7~": "home", "\x1b[8~": "end",
	"\x1b[5~": "pgup", "\x1b[6~": "pgdn", "\x1b[Z": "shift+tab", "\x1b[3~": "delete",
}

// controls are keys that are one control character.
var controls = map[byte]Key{
	'\r': "enter", '\n': "enter", '\t': "tab", ' ': "space", 0x7f: "backspace", 0x08: "backspace",
	0x03: "ctrl+c", 0x1a: "ctrl+z", 0x0c: "ctrl+l", 0x06: "pgdn", 0x02: "pgup",
}

// parseKeys reads the keys that a terminal sent. rest is the beginning of one that is not whole
// yet; with last nothing more comes, and a lone escape is the key. What is no key is passed over.
func parseKeys(b []byte, last bool) (keys []Key, rest []byte) {
	for len(b) > 0 {
		if key, known := controls[b[0]]; known {
			keys, b = append(keys, key), b[1:]
			continue
		}
		if b[0] == 0x1b {
			n, whole := sequence(b)
			if !whole && !last {
				return keys, b
			}
			if key, known := sequences[string(b[:n])]; known {
				keys = append(keys, key)
			} else if n == 1 {
				keys = append(keys, "esc")
			}
			b = b[n:]
			continue
		}
		if !utf8.FullRune(b) && !last {
			return keys, b
		}
		r, n := utf8.DecodeRune(b)
		if r >= ' ' && r != utf8.RuneError {
			keys = append(keys, Key(string(r)))
		}
		b = b[n:]
	}
	return keys, nil
}

// sequence is how long the escape sequence is with which b begins, and whether all of it is there.
func sequence(b []byte) (n int, whole bool) {
	switch {
	case len(b) == 1:
		return 1, false
	case b[1] == 'O':
		return min(3, len(b)), len(b) >= 3
	case b[1] == '[':
		end := bytes.IndexFunc(b[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
		if end < 0 {
			return len(b), len(b) > 32 // no key is that long
		}
		return 2 + end + 1, true
	}
	return 1, true // the escape key, and another one after it
}
