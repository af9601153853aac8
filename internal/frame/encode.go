package frame

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// maxShared is how many bytes of a token may be those of the one before.
const maxShared = 64

func appendNumber(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendSpell(b []byte, d time.Duration) []byte { return binary.AppendVarint(b, int64(d)) }

func appendMoment(b []byte, t time.Time) []byte { return binary.AppendVarint(b, t.UnixMilli()) }

// appendText writes a text. What a reader would refuse becomes U+FFFD, as in JSON: output of a
// strange program must not spoil the message that carries it.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = strings.Map(func(r rune) rune { // bytes that are no UTF-8 come as U+FFFD
			if r == 0 {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	return append(appendNumber(b, len(s)), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = appendNumber(b, len(list))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

// appendToken writes what differs from the token before.
func appendToken(b []byte, before, s string) []byte {
	n := 0
	for limit := min(len(before), len(s), maxShared); n < limit && before[n] == s[n] &&
		s[n] < utf8.RuneSelf; {
		n++
	}
	return appendText(appendNumber(b, n), s[n:])
}

// appendID writes an id that is not the one behind the id before.
func appendID(b []byte, id task.ID) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(id.Batch))
	return binary.AppendUvarint(b, uint64(uint32(id.N)))
}

// after is the id behind another one.
func after(id task.ID) task.ID { return task.ID{Batch: id.Batch, N: id.N + 1} }
