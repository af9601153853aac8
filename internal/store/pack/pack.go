package pack

import (
	"iter"
	"math/bits"
)

// Size is how many numbers a pack has.
const Size = 64

// Lo is the first number of the pack that a number belongs to.
func Lo(n int32) int32 { return n &^ (Size - 1) }

// Bits are numbers of one pack: bit i stands for the number Lo + i.
type Bits uint64

// Bit is the bit of a number.
func Bit(n int32) Bits { return 1 << (uint32(n) % Size) }

// Between are the bits of those of the numbers from lo to hi, both included, that belong to the
// pack that begins at first.
func Between(first, lo, hi int32) Bits {
	if lo < first {
		lo = first
	}
	if last := first + Size - 1; hi > last {
		hi = last
	}
	if lo > hi {
		return 0
	}
	return ^Bits(0) >> uint32(Size-1-(hi-lo)) << uint32(lo-first)
}

// Has tells whether a number is among the bits.
func (b Bits) Has(n int32) bool { return b&Bit(n) != 0 }

// Len is how many numbers there are.
func (b Bits) Len() int { return bits.OnesCount64(uint64(b)) }

// Last is the greatest of the numbers in a pack that begins at lo; lo - 1 when there is none.
func (b Bits) Last(lo int32) int32 { return lo + int32(bits.Len64(uint64(b))) - 1 }

// Numbers are the numbers in a pack that begins at lo, ascending.
func (b Bits) Numbers(lo int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for ; b != 0; b &= b - 1 {
			if !yield(lo + int32(bits.TrailingZeros64(uint64(b)))) {
				return
			}
		}
	}
}

// Runs are the first and the last number of each run of numbers that follow one another, in a pack
// that begins at lo.
func (b Bits) Runs(lo int32) iter.Seq2[int32, int32] {
	return func(yield func(from, to int32) bool) {
		for b != 0 {
			from := bits.TrailingZeros64(uint64(b))
			n := bits.TrailingZeros64(^(uint64(b) >> from))
			if !yield(lo+int32(from), lo+int32(from+n)-1) {
				return
			}
			b &^= ^Bits(0) >> (Size - n) << from
		}
	}
}
