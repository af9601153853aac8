package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/rotahq/rota/task"
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
	id := task.ID{Batch: 7, N: 3}
	token := s.Seal(task.Token{Span: 5, SpanToken: 2, Seq: 1}, id, "w1")
	if token.Seal>>32 == 0 || token.Seal&(1<<32-1) == 0 {
		t.Errorf("the seal %x has not 64 bits", token.Seal)
	}
	if back, err := task.ParseToken(token.String()); err != nil || back != token ||
		s.Check(back, id) != Good || !s.Owned(back, id, "w1") {
		t.Errorf("%v is read as %v, %v", token, back, err)
	}
	if s.Owned(token, id, "w2") || s.Owned(token, id, "") ||
		s.Owned(token, task.ID{Batch: 7, N: 4}, "w1") {
		t.Error("it is another worker's or another task's, too")
	}
	other := NewSealer(Secret{Key: sha256.Sum256([]byte("other")), Old: 1})
	for name, x := range map[string]task.Token{
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
	if s.Check(token, task.ID{Batch: 8, N: 3}) != Forged ||
		s.Check(token, task.ID{Batch: 7, N: 2}) != Forged || other.Check(token, id) != Forged {
		t.Error("it is good for another task, or in another store")
	}
}

func TestOldSealsAreKnownForOld(t *testing.T) {
	id := task.ID{Batch: 7, N: 3}
	old := NewSealer(Secret{Old: 4711}).SealBefore(task.Token{Span: 5, SpanToken: 2, Seq: 1}, id)
	if s := NewSealer(Secret{Old: 4711}); s.Check(old, id) != Old || s.Owned(old, id, "w1") ||
		s.Check(old, task.ID{Batch: 7, N: 4}) != Forged {
		t.Error("the seal of an earlier version is not known for what it is")
	}
	if s := NewSealer(Secret{}); s.Check(old, id) != Forged {
		t.Error("a store that never had an earlier version takes its seals")
	}
	job := task.JobToken{Number: 9}
	job.Seal = oldJobSeal(4711, job, "g", "j", 1, "w")
	s := NewSealer(Secret{Old: 4711})
	if s.CheckJob(job, "g", "j", 1, "w") != Old ||
		s.CheckJob(job, "g", "j", 1, "v") != Forged ||
		NewSealer(Secret{}).CheckJob(job, "g", "j", 1, "w") != Forged {
		t.Error("the seal of an earlier version's assignment is not known for what it is")
	}
	if fresh := s.SealJob(job, "g", "j", 1, "w"); s.CheckJob(fresh, "g", "j", 1, "w") != Good ||
		s.CheckJob(fresh, "gj", "", 1, "w") != Forged {
		t.Error("the seal of an assignment")
	}
}

func TestSealingAllocatesNothing(t *testing.T) {
	s, id, worker := NewSealer(Secret{}), task.ID{Batch: 7, N: 3}, "worker-of-the-17th-machine"
	token := s.Seal(task.Token{Span: 5}, id, worker)
	if n := testing.AllocsPerRun(100, func() {
		token = s.Seal(token, id, worker)
		if s.Check(token, id) != Good || !s.Owned(token, id, worker) {
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
	s, id := NewSealer(Secret{}), task.ID{Batch: 7, N: 3}
	var token task.Token
	for b.Loop() {
		token = s.Seal(token, id, "worker-17")
	}
}
