package task

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"
)

// ID names a task: the batch it was submitted in and its number there. Batches are time-ordered, so
// ids sort by time of submission, both as values and as strings.
type ID struct {
	// > 0; microseconds since 1970 shifted by 10 bits, plus 10 bits that tell nodes apart
	Batch int64
	N     int32 // >= 0
}

// digits is Crockford's base 32 in lower case: no i, l, o, u, and in ASCII order.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

var digitOf = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range len(digits) {
		t[digits[i]] = int8(i)
	}
	return t
}()

const (
	batchDigits = 13                  // 13 × 5 bits hold 63
	minID       = batchDigits + 1 + 1 // a digit that counts those of N comes between
	maxID       = batchDigits + 1 + 7 // 7 × 5 bits hold 31
)

// Append appends the id's text: thirteen digits of batch, then how many digits N has, then N
// without leading zeros. The count makes texts sort as the numbers do.
func (id ID) Append(b []byte) []byte {
	for shift := 5 * (batchDigits - 1); shift >= 0; shift -= 5 {
		b = append(b, digits[uint64(id.Batch)>>shift&31])
	}
	n := uint64(uint32(id.N))
	b = append(b, digits[max(1, (bits.Len64(n)+4)/5)])
	return appendDigits(b, n)
}

// String is the public form: short, lower case, one form for each id.
func (id ID) String() string { return string(id.Append(make([]byte, 0, maxID))) }

// Compare orders ids by time of submission.
func (id ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(id.Batch, o.Batch), cmp.Compare(id.N, o.N))
}

// MarshalText gives the public form.
func (id ID) MarshalText() ([]byte, error) { return id.Append(nil), nil }

// UnmarshalText accepts the public form only.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// ParseID is the inverse of String. It accepts nothing else: one task has one id.
func ParseID(s string) (ID, error) {
	if len(s) < minID || len(s) > maxID || int(digitOf[s[batchDigits]]) != len(s)-batchDigits-1 {
		return ID{}, badID(s)
	}
	batch, ok := parseFixed(s[:batchDigits], 63)
	n, rest, ok2 := parseDigits(s[batchDigits+1:])
	if !ok || !ok2 || rest != "" || n > 1<<31-1 || batch == 0 {
		return ID{}, badID(s)
	}
	return ID{Batch: int64(batch), N: int32(n)}, nil
}

// badID copies s, so that callers of ParseID need not allocate for good ids.
func badID(s string) error { return fmt.Errorf("parse id %.40q: not a task id", strings.Clone(s)) }

// Token is the right to report one hand-out. Handlers that fence side effects order the tokens of
// one task by (Seq, Span token): a later hand-out always has the greater one.
type Token struct {
	Span      int64  // the span it was handed out from
	SpanToken int64  // that span's token at the time; only grows
	Seq       int32  // where in the task's history the outcome will stand
	Seal      uint64 // binds the rest to the task, see Sealed
	Owner     uint64 // binds all of it to the worker; 0 in tokens that an earlier version made
}

// tokenDot separates the numbers; it is no digit, so the text is unambiguous.
const tokenDot = '.'

// Append appends the token's text: its five numbers, or four of an earlier version.
func (t Token) Append(b []byte) []byte {
	b = appendDigits(b, uint64(t.Span))
	b = append(b, tokenDot)
	b = appendDigits(b, uint64(t.SpanToken))
	b = append(b, tokenDot)
	b = appendDigits(b, uint64(uint32(t.Seq)))
	b = append(b, tokenDot)
	b = appendDigits(b, t.Seal)
	if t.Owner != 0 {
		b = append(b, tokenDot)
		b = appendDigits(b, t.Owner)
	}
	return b
}

func (t Token) String() string { return string(t.Append(make([]byte, 0, 64))) }

// ParseToken is the inverse of Token.String. Callers outside rota treat tokens as opaque.
func ParseToken(s string) (Token, error) {
	var v [5]uint64
	rest, n := s, 0
	for {
		var ok bool
		if v[n], rest, ok = parseDigits(rest); !ok {
			return Token{}, badToken(s)
		}
		n++
		if rest == "" {
			break
		}
		if rest[0] != tokenDot || n == len(v) {
			return Token{}, badToken(s)
		}
		rest = rest[1:]
	}
	switch {
	case n < 4, n == 5 && v[4] == 0:
		return Token{}, badToken(s)
	case v[0] > 1<<63-1 || v[1] > 1<<63-1 || v[2] > 1<<31-1:
		return Token{}, badToken(s)
	}
	return Token{Span: int64(v[0]), SpanToken: int64(v[1]), Seq: int32(v[2]), Seal: v[3],
		Owner: v[4]}, nil
}

// badToken copies s as badID does.
func badToken(s string) error {
	return fmt.Errorf("parse token %.60q: not a hand-out token", strings.Clone(s))
}

func appendDigits(b []byte, v uint64) []byte {
	var buf [13]byte
	i := len(buf)
	for {
		i--
		buf[i] = digits[v&31]
		if v >>= 5; v == 0 {
			return append(b, buf[i:]...)
		}
	}
}

// parseDigits reads a number without leading zeros up to the first character that is no digit.
func parseDigits(s string) (v uint64, rest string, ok bool) {
	i := 0
	for ; i < len(s) && digitOf[s[i]] >= 0; i++ {
		if v>>59 != 0 {
			return 0, s, false
		}
		v = v<<5 | uint64(digitOf[s[i]])
	}
	if i == 0 || (i > 1 && s[0] == '0') {
		return 0, s, false
	}
	return v, s[i:], true
}

func parseFixed(s string, bits int) (v uint64, ok bool) {
	for i := range len(s) {
		d := digitOf[s[i]]
		if d < 0 || v>>59 != 0 {
			return 0, false
		}
		v = v<<5 | uint64(d)
	}
	return v, v>>bits == 0
}
