package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneHolderAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer a.run()()
		l := a.mustAcquire("x")
		for range 60 {
			time.Sleep(time.Second)
			if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
				t.Fatalf("another got it: %v", err)
			}
		}
		wantHeld(t, l, nil)
		if _, err := a.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrHeld) {
			t.Errorf("again by its holder: %v", err)
		}
	})
}

func TestContextEndsAMarginBeforeAnybodyElseGetsTheName(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer b.run()()
		asked := time.Now()
		l := a.mustAcquire("x") // and never renews it
		if got := l.Until().Sub(asked); got != 7500*time.Millisecond {
			t.Errorf("it says that it ends after %v", got)
		}
		<-l.Context().Done()
		if got := time.Since(asked); got != 7500*time.Millisecond {
			t.Errorf("the context ended after %v", got)
		}
		wantHeld(t, l, ErrExpired)
		for {
			other, err := b.Keeper.Acquire(t.Context(), "x", nil)
			if errors.Is(err, ErrTaken) {
				time.Sleep(time.Millisecond)
				continue
			}
			if err != nil || other.Token() <= l.Token() {
				t.Errorf("token %d, after it %d; %v", l.Token(), other.Token(), err)
			}
			break
		}
		if got := time.Since(asked); got != 10*time.Second {
			t.Errorf("another got it after %v", got)
		}
		if err := a.Round(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
		if err := l.Err(); err != ErrLost {
			t.Errorf("the first holder's lease: %v", err)
		}
	})
}

func TestHoldingIsCountedFromBeforeTheAsking(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		l := a.mustAcquire("x")
		time.Sleep(time.Second)
		a.set(faults{there: time.Second, back: 2 * time.Second})
		asked := time.Now()
		if err := a.Round(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		if got := time.Since(asked); got != 7500*time.Millisecond {
			t.Errorf("the context ended %v after the renewal was asked for", got)
		}
	})
}

func TestAnswerThatComesTooLateGivesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		k, err := New(Config{
			Store: a.wire, Holder: "c", TTL: 3 * time.Second, Margin: 1500 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		a.set(faults{back: 1500 * time.Millisecond})
		if _, err := k.Acquire(t.Context(), "x", nil); err == nil {
			t.Error("held")
		}
	})
}

func TestHangingCallIsGivenUpInTimeForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		l := a.mustAcquire("x")
		a.set(faults{back: time.Hour})
		defer a.run()()
		time.Sleep(5 * time.Second)
		a.set(faults{})
		time.Sleep(10 * time.Second)
		wantHeld(t, l, nil)
	})
}

func TestWhoComesBackFromAnOutageGoesOnWithItsTokenAndANewContext(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer a.run()()
		defer b.run()()
		l := a.mustAcquire("x")
		token, before := l.Token(), l.Context()
		a.set(faults{away: true})
		b.set(faults{away: true})
		time.Sleep(time.Minute)
		wantHeld(t, l, ErrExpired)
		a.set(faults{})
		b.set(faults{})
		synctest.Wait()
		if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
			t.Errorf("another took it from one who could not speak: %v", err)
		}
		time.Sleep(1500 * time.Millisecond)
		wantHeld(t, l, nil)
		if l.Token() != token || context.Cause(before) != ErrExpired {
			t.Errorf("token %d, it was %d; the old context: %v", l.Token(), token,
				context.Cause(before))
		}
	})
}

func TestNobodyLosesANameWhenTheStoresClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, 5 * time.Second, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				m := &Memory{Clock: func() time.Time {
					return time.Now().Add(time.Duration(ahead.Load()))
				}}
				a, b := newSite(t, m, "a"), newSite(t, m, "b")
				stopA, stopB := a.run(), b.run()
				defer stopB()
				time.Sleep(11500 * time.Millisecond)
				x := a.mustAcquire("x")
				time.Sleep(600 * time.Millisecond)
				ahead.Store(int64(jump))
				for range 100 {
					if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err,
						ErrTaken) {
						t.Fatalf("taken from the living: %v", err)
					}
					if b.Calm(time.Now()) {
						t.Fatal("calm within a lease time of the jump")
					}
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				if !b.Calm(time.Now()) {
					t.Error("not calm a lease time after the jump")
				}
				wantHeld(t, x, nil)
				stopA()
				time.Sleep(10 * time.Second)
				b.mustAcquire("x")
			})
		})
	}
}

func TestWhoCameJustNowTakesOnlyWhatWasGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		given := a.mustAcquire("given back")
		a.mustAcquire("dead")
		time.Sleep(time.Minute)
		if err := given.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := newSite(t, a.Memory, "c")
		defer c.run()()
		c.mustAcquire("given back")
		c.mustAcquire("new")
		begun := time.Now()
		for {
			_, err := c.Keeper.Acquire(t.Context(), "dead", nil)
			if err == nil {
				break
			} else if !errors.Is(err, ErrTaken) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := time.Since(begun); got < 10*time.Second || got > 12*time.Second {
			t.Errorf("took from the dead after %v", got)
		}
	})
}

func TestWhoIsAloneWaitsForNobody(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		old := a.mustAcquire("x")
		for _, holder := range []string{"a", "c"} {
			if holder == "c" {
				time.Sleep(10 * time.Second)
			}
			k, err := New(Config{Store: a.Memory, Holder: holder, Alone: true})
			if err != nil {
				t.Fatal(err)
			}
			if l, err := k.Acquire(t.Context(), "x", nil); err != nil || l.Token() <= old.Token() {
				t.Error(err)
			}
		}
	})
}

func TestLostAnswerCostsTimeButNoName(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer a.run()()
		defer b.run()()
		a.set(faults{lossy: true})
		if _, err := a.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		a.set(faults{})
		if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
			t.Errorf("another got what the store gave away: %v", err)
		}
		l := a.mustAcquire("x")
		a.set(faults{lossy: true})
		time.Sleep(7 * time.Second) // renewals reach the store all the time
		wantHeld(t, l, nil)
		time.Sleep(2 * time.Second)
		wantHeld(t, l, ErrExpired)
		a.set(faults{})
		time.Sleep(1500 * time.Millisecond)
		wantHeld(t, l, nil)
		a.set(faults{lossy: true})
		if err := l.Release(t.Context()); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		wantHeld(t, l, ErrReleased)
		a.set(faults{})
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		b.mustAcquire("x")
	})
}

func TestReleasedNameIsFreeAtOnceAndForgottenWhenRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		var token int64
		for i := range 4 {
			l := a.mustAcquire("x")
			if l.Token() <= token {
				t.Errorf("token %d after %d", l.Token(), token)
			}
			end := a.Release
			if i%2 == 0 {
				end = a.Remove
			}
			if err := end(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			wantHeld(t, l, ErrReleased)
			other := b.mustAcquire("x")
			token = other.Token()
			if err := errors.Join(l.Release(t.Context()), other.Release(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestManyNamesCostOneCall(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		b.mustAcquire("7")
		var wants []Want
		for i := range 1000 {
			wants = append(wants, Want{Name: fmt.Sprint(i)})
		}
		list, err := a.AcquireAll(t.Context(), wants...)
		if err != nil || len(list) != 999 {
			t.Fatalf("%d leases, %v", len(list), err)
		}
		a.renews = 0
		for range 5 {
			time.Sleep(time.Second)
			if err := a.Round(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.acquires != 1 || a.renews != 5 || a.ends != 1 {
			t.Errorf("%d acquires, %d renewals, %d ends", a.acquires, a.renews, a.ends)
		}
		for _, l := range list {
			wantHeld(t, l, ErrReleased)
		}
		if _, err := a.AcquireAll(t.Context(), wants...); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseDuringAnAcquireLeavesNothingHeld(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		a.set(faults{there: time.Second})
		ended := make(chan error)
		go func() {
			_, err := a.Keeper.Acquire(t.Context(), "x", nil)
			ended <- err
		}()
		synctest.Wait()
		if _, err := a.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrHeld) {
			t.Errorf("twice at a time: %v", err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		b.mustAcquire("x")
	})
}

func TestCloseThatFailedFreesTheNamesWhenItIsCalledAgain(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		l := a.mustAcquire("x")
		a.set(faults{away: true})
		if err := a.Close(t.Context()); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		wantHeld(t, l, ErrReleased)
		a.set(faults{})
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.mustAcquire("x")
	})
}

func TestHolderSaysOfItselfWhatItWasSetTo(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		l, err := a.Keeper.Acquire(t.Context(), "x", []byte("first"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"first", "second"} {
			if want != "first" {
				l.Set([]byte(want))
			}
			if err := a.Round(t.Context(), time.Now()); err != nil ||
				!bytes.Equal(a.Memory.leases["x"].value, []byte(want)) {
				t.Errorf("it says %q, want %q; %v", a.Memory.leases["x"].value, want, err)
			}
		}
	})
}

func TestPauseOfTheProcessIsSeenByWhoeverAsks(t *testing.T) {
	l := &Lease{keeper: &Keeper{}, deadline: time.Now().Add(-time.Nanosecond)}
	// not ended yet: the timer's goroutine has not run since
	l.ctx, l.cancel = context.WithCancelCause(t.Context())
	if err := l.Err(); err != ErrExpired {
		t.Error(err)
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{TTL: 2 * time.Second, Beat: time.Second, Margin: 1500 * time.Millisecond})
	for _, want := range []string{"Store", "Holder", "beat", "margin"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %s in: %v", want, err)
		}
	}
}

func BenchmarkRoundOf10000Leases(b *testing.B) {
	k, err := New(Config{Store: &Memory{}, Holder: "a"})
	if err != nil {
		b.Fatal(err)
	}
	wants := make([]Want, 10_000)
	for i := range wants {
		wants[i].Name = fmt.Sprintf("claim/%05d", i)
	}
	if list, err := k.AcquireAll(b.Context(), slices.Clone(wants)...); err != nil ||
		len(list) != len(wants) {
		b.Fatal(len(list), err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := k.Round(b.Context(), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
