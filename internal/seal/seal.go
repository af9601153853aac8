// Package seal makes the tokens of hand-outs and assignments so that nobody else can: a token bears a
// MAC by the secret of the store, which binds it to its task and to its worker.
package seal

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"fmt"
	"hash"
	"math/bits"
	"sync"

	"github.com/rotahq/rota/task"
)

// Secret is what seals the tokens of one store: the same at each of its nodes, and unknown to
// everybody else. Seals are HMACs, so nobody without the key can make one, however many were seen.
type Secret struct {
	Key [32]byte
	// Old is what an earlier version of rota sealed with, by a hash of 32 bits that is no MAC.
	// Hand-outs that began before Since (microseconds, by the store's clock) may still carry such a
	// seal. 0 = none may.
	Old   uint64
	Since int64
}

// Sealer seals tokens with a secret, and checks them. Its methods may be called at the same time.
type Sealer struct {
	Secret
	inner, outer []byte    // what the pads of HMAC leave behind in SHA-256
	scratch      sync.Pool // of *scratch
}

// NewSealer makes the sealer of a secret.
func NewSealer(s Secret) *Sealer {
	pad := func(with byte) []byte {
		var block [sha256.BlockSize]byte
		copy(block[:], s.Key[:])
		for i := range block {
			block[i] ^= with
		}
		d := sha256.New()
		d.Write(block[:])
		state, err := d.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			// the standard library's can
			panic(fmt.Sprintf("seal: keep a state of SHA-256: %v", err))
		}
		return state
	}
	return &Sealer{Secret: s, inner: pad(0x36), outer: pad(0x5c),
		scratch: sync.Pool{New: func() any {
			return &scratch{digest: sha256.New()}
		}}}
}

// Worth says what a token's seal is worth.
type Worth uint8

const (
	Forged Worth = iota // the token is another task's, or made up
	Good                // it was given out with this very secret
	// an earlier version may have given it out: good only for what began before Secret.Since
	Old
)

// Seal is t as the token of one hand-out to a worker. Without the seal the tasks of a span would
// share their token, and a worker could report a task that was handed to another, or to nobody.
func (s *Sealer) Seal(t task.Token, id task.ID, worker string) task.Token {
	mac := s.ofToken(t, id)
	t.Seal, t.Owner = sealOf(&mac), ownerOf(&mac, worker)
	return t
}

// Check says what the seal of a token is worth for a task. It does not look at whose token it is:
// see Owned.
func (s *Sealer) Check(t task.Token, id task.ID) Worth {
	if t.Owner == 0 {
		if s.Old != 0 && t == s.SealBefore(t, id) {
			return Old
		}
		return Forged
	}
	mac := s.ofToken(t, id)
	if sealOf(&mac) != t.Seal {
		return Forged
	}
	return Good
}

// Owned tells whether a token was made for this hand-out to this worker, with this secret.
func (s *Sealer) Owned(t task.Token, id task.ID, worker string) bool {
	mac := s.ofToken(t, id)
	return sealOf(&mac) == t.Seal && ownerOf(&mac, worker) == t.Owner
}

// ofToken is the MAC of what a token says of its task.
func (s *Sealer) ofToken(t task.Token, id task.ID) [sha256.Size]byte {
	var b [33]byte
	b[0] = 'h'
	binary.BigEndian.PutUint64(b[1:], uint64(id.Batch))
	binary.BigEndian.PutUint32(b[9:], uint32(id.N))
	binary.BigEndian.PutUint64(b[13:], uint64(t.Span))
	binary.BigEndian.PutUint64(b[21:], uint64(t.SpanToken))
	binary.BigEndian.PutUint32(b[29:], uint32(t.Seq))
	return s.mac(b[:])
}

// mac is HMAC-SHA256 (RFC 2104) of a message, as crypto/hmac makes it, but from what both pads
// leave behind and without an allocation: it stands in the way of every hand-out.
func (s *Sealer) mac(message []byte) [sha256.Size]byte {
	c := s.scratch.Get().(*scratch)
	c.text = append(c.text[:0], message...) // what an interface is given does not stay on the stack
	c.resume(s.inner)
	c.digest.Write(c.text)
	c.sum = c.digest.Sum(c.sum[:0])
	c.resume(s.outer)
	c.digest.Write(c.sum)
	c.sum = c.digest.Sum(c.sum[:0])
	sum := [sha256.Size]byte(c.sum)
	s.scratch.Put(c)
	return sum
}

// scratch is what one MAC needs.
type scratch struct {
	digest    hash.Hash
	text, sum []byte
}

// resume brings the digest to a state that another one of its kind was in.
func (c *scratch) resume(state []byte) {
	if err := c.digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic(fmt.Sprintf("seal: resume SHA-256: %v", err)) // it is the state that it gave
	}
}

// sealOf is the part of a MAC that a token shows. The other 192 bits stay unknown.
func sealOf(mac *[sha256.Size]byte) uint64 { return binary.BigEndian.Uint64(mac[:]) }

// ownerOf binds a token to a worker, with a part of its MAC that it does not show as the key. It is
// never 0.
func ownerOf(mac *[sha256.Size]byte, worker string) uint64 {
	return max(sipHash(binary.LittleEndian.Uint64(mac[8:]), binary.LittleEndian.Uint64(mac[16:]),
		worker), 1)
}

// sipHash is SipHash-2-4 (Aumasson and Bernstein 2012), a MAC of 64 bits that is quick for short
// texts.
func sipHash(k0, k1 uint64, text string) uint64 {
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261,
		k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	word := func(m uint64) {
		v3 ^= m
		round()
		round()
		v0 ^= m
	}
	m, n := uint64(0), 0
	for i := range len(text) {
		m |= uint64(text[i]) << (8 * n)
		if n++; n == 8 {
			word(m)
			m, n = 0, 0
		}
	}
	word(m | uint64(len(text))<<56)
	v2 ^= 0xff
	for range 4 {
		round()
	}
	return v0 ^ v1 ^ v2 ^ v3
}

// SealJob is t as the token of one assignment: who claims to run what was never given to it can be
// told from one whose assignment the store has lost.
func (s *Sealer) SealJob(
	t task.JobToken, group, job string, replica int, worker string,
) task.JobToken {
	var room [512]byte
	b := binary.BigEndian.AppendUint64(append(room[:0], 'j'), uint64(t.Number))
	b = binary.BigEndian.AppendUint32(b, uint32(replica))
	for _, part := range [...]string{group, job, worker} {
		// so that none runs into the next
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	mac := s.mac(b)
	t.Seal = sealOf(&mac)
	return t
}

// CheckJob says what the seal of an assignment's token is worth.
func (s *Sealer) CheckJob(t task.JobToken, group, job string, replica int, worker string) Worth {
	switch {
	case t == s.SealJob(t, group, job, replica, worker):
		return Good
	case s.Old != 0 && t.Seal == oldJobSeal(s.Old, t, group, job, replica, worker):
		return Old
	}
	return Forged
}

// SealBefore is t as versions before 256-bit secrets sealed it: with 32 bits of a hash that is no
// MAC, and for no worker.
func (s *Sealer) SealBefore(t task.Token, id task.ID) task.Token {
	key := s.Old
	h := mix(key ^ uint64(id.Batch))
	h = mix(h ^ key ^ uint64(uint32(id.N))<<32 ^ uint64(uint32(t.Seq)))
	h = mix(h ^ uint64(t.Span))
	h = mix(h ^ key ^ uint64(t.SpanToken))
	t.Seal, t.Owner = h>>32, 0
	return t
}

// oldJobSeal is how they sealed that of an assignment.
func oldJobSeal(key uint64, t task.JobToken, group, job string, replica int, worker string) uint64 {
	h := mix(key ^ uint64(t.Number))
	for _, part := range [...]string{group, job, worker} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h = mix(h ^ key)
	}
	return mix(h^uint64(replica)) >> 32
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014), of which earlier versions made
// their seals.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
