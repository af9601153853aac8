package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"runtime/debug"
	"slices"
	"testing"
)

func TestSealsAreHMACs(t *testing.T) {
	s := NewSealer(Secret{Key: sha256.Sum256([]byte("k"))})
	for _, n := range []int{0, 1, 33, 63, 64, 65, 512, 2000} {
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(i)
		}
		mac := hmac.New(sha256.New, s.Key[:])
		mac.Write(message)
		if got := s.mac(message); !hmac.Equal(got[:], mac.Sum(nil)) {
			t.Errorf("of %d bytes: %x", n, got)
		}
	}
}

// The vectors are those of the paper: the key 00 … 0f, and the first bytes of 00 01 02 ….
func TestOwnersAreSipHashes(t *testing.T) {
	text := "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e"
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd,
		8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		if got := sipHash(0x0706050403020100, 0x0f0e0d0c0b0a0908, text[:n]); got != want {
			t.Errorf("of %d bytes: %x, want %x", n, got, want)
		}
	}
}

func TestSealBindsATokenToItsTaskAndItsWorker(t *testing.T) {
	s := NewSealer(Secret{Key: sha256.Sum256([]byte("k"))})
	id := ID{Batch: 7, N: 3}
	token := Token{Span: 5, SpanToken: 2, Seq: 1}.Sealed(s, id, "w1")
	if token.Seal>>32 == 0 || token.Seal&(1<<32-1) == 0 {
		t.Errorf("the seal %x has not 64 bits", token.Seal)
	}
	if back, err := ParseToken(token.String()); err != nil || back != token ||
		s.Check(back, id) != Sealed || !s.Owned(back, id, "w1") {
		t.Errorf("%v is read as %v, %v", token, back, err)
	}
	if s.Owned(token, id, "w2") || s.Owned(token, id, "") ||
		s.Owned(token, ID{Batch: 7, N: 4}, "w1") {
		t.Error("it is another worker's or another task's, too")
	}
	other := NewSealer(Secret{Key: sha256.Sum256([]byte("other")), Old: 1})
	for name, x := range map[string]Token{
		"span":       {Span: 6, SpanToken: 2, Seq: 1, Seal: token.Seal, Owner: token.Owner},
		"span token": {Span: 5, SpanToken: 3, Seq: 1, Seal: token.Seal, Owner: token.Owner},
		"seq":        {Span: 5, SpanToken: 2, Seq: 2, Seal: token.Seal, Owner: token.Owner},
		"high bit":   {Span: 5, SpanToken: 2, Seq: 1, Seal: token.Seal ^ 1<<63, Owner: token.Owner},
		"low bit":    {Span: 5, SpanToken: 2, Seq: 1, Seal: token.Seal ^ 1, Owner: token.Owner},
		"no owner":   {Span: 5, SpanToken: 2, Seq: 1, Seal: token.Seal},
	} {
		if s.Check(x, id) != Forged || s.Owned(x, id, "w1") {
			t.Errorf("with another %s it is good", name)
		}
	}
	if s.Check(token, ID{Batch: 8, N: 3}) != Forged ||
		s.Check(token, ID{Batch: 7, N: 2}) != Forged || other.Check(token, id) != Forged {
		t.Error("it is good for another task, or in another store")
	}
}

func TestOldSealsAreKnownForOld(t *testing.T) {
	id := ID{Batch: 7, N: 3}
	old := Token{Span: 5, SpanToken: 2, Seq: 1}.SealedBefore(NewSealer(Secret{Old: 4711}), id)
	if s := NewSealer(Secret{Old: 4711}); s.Check(old, id) != OldSeal || s.Owned(old, id, "w1") ||
		s.Check(old, ID{Batch: 7, N: 4}) != Forged {
		t.Error("the seal of an earlier version is not known for what it is")
	}
	if s := NewSealer(Secret{}); s.Check(old, id) != Forged {
		t.Error("a store that never had an earlier version takes its seals")
	}
	job := JobToken{Number: 9}
	job.Seal = oldJobSeal(4711, job, "g", "j", 1, "w")
	s := NewSealer(Secret{Old: 4711})
	if s.CheckJob(job, "g", "j", 1, "w") != OldSeal ||
		s.CheckJob(job, "g", "j", 1, "v") != Forged ||
		NewSealer(Secret{}).CheckJob(job, "g", "j", 1, "w") != Forged {
		t.Error("the seal of an earlier version's assignment is not known for what it is")
	}
	if fresh := job.Sealed(s, "g", "j", 1, "w"); s.CheckJob(fresh, "g", "j", 1, "w") != Sealed ||
		s.CheckJob(fresh, "gj", "", 1, "w") != Forged {
		t.Error("the seal of an assignment")
	}
}

func TestSealingAllocatesNothing(t *testing.T) {
	s, id, worker := NewSealer(Secret{}), ID{Batch: 7, N: 3}, "worker-of-the-17th-machine"
	token := Token{Span: 5}.Sealed(s, id, worker)
	if n := testing.AllocsPerRun(100, func() {
		token = token.Sealed(s, id, worker)
		if s.Check(token, id) != Sealed || !s.Owned(token, id, worker) {
			t.Error("forged")
		}
	}); n > allocationsOf(3) {
		t.Errorf("%v allocations", n)
	}
}

// allocationsOf is how many allocations so many MACs may make: none, but the race detector has each
// sync.Pool drop one of four things that it is given, and what is made anew is four allocations.
func allocationsOf(macs float64) float64 {
	info, _ := debug.ReadBuildInfo()
	if info != nil &&
		slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return macs * 4 / 2
	}
	return 0
}

func BenchmarkSealed(b *testing.B) {
	s, id := NewSealer(Secret{}), ID{Batch: 7, N: 3}
	var token Token
	for b.Loop() {
		token = token.Sealed(s, id, "worker-17")
	}
}
