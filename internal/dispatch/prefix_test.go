package dispatch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// tardy answers each take late.
func (h *house) tardy(by time.Duration) {
	h.door.After("Take", func(err error) error {
		time.Sleep(by)
		return err
	})
}

// However few tasks a worker runs at a time, it does not wait for those of a full key that come
// first to be taken a few at a time.
func TestFewSlotsWaitNoLongerBehindAFullKey(t *testing.T) {
	for _, slots := range []int{1, 2, 4, 10} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openAs(t, model.New(time.Now), "n", func(c *Config) { c.Ahead = 1000 })
				h.tardy(5 * time.Millisecond)
				defer h.close()
				h.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.Paused = 2, true })
				full := make([]string, 3000)
				for i := range full {
					full[i] = "a"
				}
				h.ofKeys(full...)
				for range 40 {
					h.ofKeys("b")
				}
				h.set(func(q *task.Queue) { q.Paused = false })
				h.holdFor("x", 2, time.Second) // of a, and they stay
				time.Sleep(10 * time.Second)
				for range 4 {
					at := time.Now()
					got := h.holdFor("w", slots, 5*time.Second)
					if took := time.Since(at); len(got) == 0 || took > 100*time.Millisecond {
						t.Errorf("%v after %v", keysOf(got), took)
					}
					time.Sleep(5 * time.Second) // in which it asks for nothing
					h.done("w", got...)
				}
			})
		})
	}
}

// Memory that the contexts of a full key have filled makes room for others at once.
func TestMemoryFullOfLargeContextsMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openAs(t, model.New(time.Now), "n", func(c *Config) {
			c.Ahead, c.AheadBytes = 400, 100<<10
		})
		h.tardy(5 * time.Millisecond)
		defer h.close()
		h.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.Paused = 2, true })
		luck := rand.New(rand.NewPCG(1, 2))
		subs := make([]task.Submission, 500)
		for i := range subs {
			var large strings.Builder // which does not compress
			for range 3000 {
				large.WriteByte(byte('a' + luck.IntN(26)))
			}
			subs[i] = task.Submission{
				Queue: "q", GroupKey: "a", Context: fmt.Appendf(nil, `["a",%d,%q]`, i, &large),
			}
		}
		h.submit(subs...)
		h.set(func(q *task.Queue) { q.Paused = false })
		h.holdFor("x", 2, time.Second)
		time.Sleep(10 * time.Second)
		for i := range 100 {
			h.ofKeys(string('b' + rune(i%5)))
			at := time.Now()
			got := h.holdFor("w", 40, 5*time.Second)
			if took := time.Since(at); took > 100*time.Millisecond || len(got) == 0 {
				t.Errorf("%d: %v after %v", i, keysOf(got), took)
			}
			h.done("w", got...)
			time.Sleep(time.Second)
		}
	})
}

// What goes to the store while a take is under way is not overtaken by what is submitted when that
// was answered.
func TestWhatComesDuringATakeIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		h.tardy(40 * time.Millisecond)
		defer h.close()
		h.perKey(4)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 300 {
				h.submit(task.Submission{
					Queue: "q", GroupKey: "a", Context: fmt.Appendf(nil, `["a",%d]`, i),
				})
				time.Sleep(7 * time.Millisecond)
			}
		})
		last := -1
		for ran := 0; ran < 300; {
			got := h.holdFor("w", 20, 50*time.Millisecond)
			for _, x := range got {
				i := 0
				if _, err := fmt.Sscanf(string(x.Context), `["a",%d]`, &i); err != nil {
					t.Fatal(err)
				}
				if i < last {
					t.Errorf("%d ran behind %d", i, last)
				}
				last = max(last, i)
			}
			ran += len(got)
			wg.Go(func() {
				time.Sleep(5 * time.Millisecond)
				h.done("w", got...)
			})
		}
		wg.Wait()
	})
}
