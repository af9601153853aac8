package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrDamaged is what every error of reading a body is: the bytes are not what was written.
var ErrDamaged = errors.New("damaged")

var (
	errShort  = errors.New("it ends too early")
	errNumber = errors.New("a number is cut or too large")
)

// reader reads a body from its front. After an error everything reads as nothing.
type reader struct {
	rest []byte
	size int
	err  error
}

func newReader(body []byte) reader { return reader{rest: body, size: len(body)} }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%w at byte %d: %w", ErrDamaged, r.size-len(r.rest), err)
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail(errShort)
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail(errNumber)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail(errNumber)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) uint64() uint64 {
	if len(r.rest) < 8 {
		r.fail(errShort)
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// bytes reads n bytes. They are a part of the body.
func (r *reader) bytes(n uint64) []byte {
	if uint64(len(r.rest)) < n {
		r.fail(errShort)
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// optional reads bytes that may be none, which is nil; bytes of no length are not.
func (r *reader) optional() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.bytes(n - 1)
}
