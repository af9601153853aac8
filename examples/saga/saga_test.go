package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/rotatest"
)

// book is what the services have said.
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func TestWhatWasDoneIsUndoneInReverseOrder(t *testing.T) {
	done := []string{"book rome", "pay rome", "ship rome"}
	for broken, want := range map[string]struct {
		said  string
		lines []string
	}{
		"none": {"on the way to rome", done},
		"ship": {"no trip to rome; undone: pay, book", []string{done[0], done[1],
			`undo pay by receipt "pay rome"`, `undo book by receipt "book rome"`}},
		"pay": {"no trip to rome; undone: book", []string{done[0],
			`undo book by receipt "book rome"`}},
		"book": {"no trip to rome; undone: ", nil},
	} {
		t.Run(broken, func(t *testing.T) {
			rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
				var b book
				handle(r, &world{broken: broken, say: b.say})
				got, err := r.Submit(t.Context(), saga("rome")...)
				if err != nil {
					t.Fatal(err)
				}
				r.Advance(10 * time.Second)
				rotatest.RequireOutcome(t, r, got[3].ID, rota.Finish(want.said))
				if !slices.Equal(b.lines, want.lines) {
					t.Errorf("%q, want %q", b.lines, want.lines)
				}
			})
		})
	}
}

// The program as people start it.
func TestTheProgram(t *testing.T) {
	w := &world{broken: "ship", say: t.Logf}
	got, err := run(t.Context(), filepath.Join(t.TempDir(), "saga.db"), "rome", w)
	if want := `"no trip to rome; undone: pay, book"`; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
