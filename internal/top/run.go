package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/muesli/cancelreader"

	"github.com/rotahq/rota/view"
)

// Source answers what the view asks a cluster. Calls end with their context.
type Source interface {
	// Follow yields overviews; an error is the last.
	Follow(context.Context) iter.Seq2[view.Overview, error]
	List(context.Context, Query) (List, error)
	// Open answers with all that is known of a thing, as text: its lines are styled, and hold
	// nothing that steers a terminal. What is drawn is drawn for a width; lines that are longer
	// are wrapped.
	Open(ctx context.Context, t Thing, width int) (string, error)
	// Act does something, and says what follows from it; "" = nothing that is worth a word.
	Act(context.Context, Action) (note string, err error)
}

// Config of Run. All is needed.
type Config struct {
	Source  Source
	In, Out *os.File // a terminal
	Now     func() time.Time
}

const (
	tickEvery = 500 * time.Millisecond
	// escapeFor is how long a lone escape may be the beginning of a sequence.
	escapeFor = 50 * time.Millisecond
)

// Run shows a cluster until its reader quits, or ctx ends, which is no error. The terminal is as it
// was before when Run returns, or panics.
func Run(ctx context.Context, conf Config) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &loop{Config: conf, messages: make(chan any, 16)}
	if err := l.takeTerminal(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.giveTerminal()) }()
	keys, err := cancelreader.NewReader(conf.In)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	defer keys.Close()
	defer l.work.Wait()
	defer keys.Cancel()
	defer cancel()
	read := make(chan []byte)
	l.beside(func() { l.readKeys(ctx, keys, read) })
	l.beside(func() { l.follow(ctx) })
	return l.run(ctx, read)
}

// beside runs f beside the loop.
func (l *loop) beside(f func()) { l.work.Go(func() { l.guarded(f) }) }

// guarded gives the terminal back before the process dies of a panic in f, so that what that says
// can be read.
func (l *loop) guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			l.giveTerminal() // the panic says more than what this may say
			panic(p)
		}
	}()
	f()
}

// loop is one run of the view.
type loop struct {
	Config
	work     sync.WaitGroup
	messages chan any // what came of what was asked for
	before   *term.State
	model    Model
	shown    string // on the terminal
}

// takeTerminal makes the terminal hand over keys as they are pressed, and puts aside what stands on
// it.
func (l *loop) takeTerminal() (err error) {
	if l.before, err = term.MakeRaw(l.In.Fd()); err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	l.shown = ""
	_, err = io.WriteString(l.Out, ansi.SetModeAltScreenSaveCursor+ansi.HideCursor)
	return err
}

func (l *loop) giveTerminal() error {
	_, err := io.WriteString(l.Out, ansi.ShowCursor+ansi.ResetModeAltScreenSaveCursor)
	return errors.Join(err, term.Restore(l.In.Fd(), l.before))
}

func (l *loop) readKeys(ctx context.Context, from io.Reader, to chan<- []byte) {
	defer close(to)
	for {
		b := make([]byte, 256)
		n, err := from.Read(b)
		if n > 0 {
			select {
			case to <- b[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *loop) follow(ctx context.Context) {
	for o, err := range l.Source.Follow(ctx) {
		if err != nil {
			l.tell(ctx, Lost{err})
			return
		}
		l.tell(ctx, Stand{o, l.Now()})
	}
}

func (l *loop) tell(ctx context.Context, msg any) {
	select {
	case l.messages <- msg:
	case <-ctx.Done():
	}
}

func (l *loop) run(ctx context.Context, read <-chan []byte) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	resized := make(chan os.Signal, 1)
	notifyResize(resized)
	defer signal.Stop(resized)
	l.model = New(l.Now())
	var pending []byte
	var escape <-chan time.Time // when what is pending is all that there is
	for {
		if err := l.draw(); err != nil {
			return err
		}
		var msgs []any
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			msgs = append(msgs, Tick(l.Now()))
		case <-resized:
			l.shown = ""
		case msg := <-l.messages:
			if lost, ended := msg.(Lost); ended && l.model.Stand == nil {
				return lost.Err // nobody has answered yet, and nobody will
			}
			msgs = append(msgs, Tick(l.Now()), msg)
		case b, open := <-read:
			if !open {
				return nil // the terminal is gone
			}
			var keys []Key
			keys, pending = parseKeys(append(pending, b...), false)
			msgs, escape = asMessages(keys), nil
			if len(pending) > 0 {
				escape = time.After(escapeFor)
			}
		case <-escape:
			var keys []Key
			keys, pending = parseKeys(pending, true)
			msgs, escape = asMessages(keys), nil
		}
		for _, msg := range msgs {
			var do []Effect
			l.model, do = l.model.Update(msg)
			for _, e := range do {
				if quit, err := l.do(ctx, e); quit || err != nil {
					return err
				}
			}
		}
	}
}

func asMessages(keys []Key) (list []any) {
	for _, k := range keys {
		list = append(list, k)
	}
	return list
}

// do begins what an update asks for.
func (l *loop) do(ctx context.Context, e Effect) (quit bool, err error) {
	switch {
	case e.Quit:
		return true, nil
	case e.Suspend:
		if err := l.giveTerminal(); err != nil {
			return false, err
		}
		suspend()
		return false, l.takeTerminal()
	case e.Load != nil:
		q := *e.Load
		l.beside(func() {
			list, err := l.Source.List(ctx, q)
			l.tell(ctx, Loaded{q, list, l.Now(), err})
		})
	case e.Open != nil:
		thing := *e.Open
		width, _, err := l.size()
		if err != nil {
			return false, err
		}
		l.beside(func() {
			text, err := l.Source.Open(ctx, thing, width)
			l.tell(ctx, Opened{thing, text, err})
		})
	case e.Act != nil:
		act := *e.Act
		l.beside(func() {
			note, err := l.Source.Act(ctx, act)
			l.tell(ctx, Acted{act, note, err})
		})
	}
	return false, nil
}

// size is the terminal's; that of a usual one where nobody knows it, as of a serial line.
func (l *loop) size() (width, height int, err error) {
	if width, height, err = term.GetSize(l.Out.Fd()); err != nil {
		return 0, 0, fmt.Errorf("read the terminal's size: %w", err)
	}
	return cmp.Or(width, 80), cmp.Or(height, 24), nil
}

// draw writes what changed since it was drawn last.
func (l *loop) draw() error {
	width, height, err := l.size()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(ansi.CursorHomePosition)
	for i, line := range l.model.Lines(width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + ansi.EraseLineRight)
	}
	b.WriteString(ansi.EraseScreenBelow)
	text := b.String()
	if text == l.shown {
		return nil
	}
	l.shown = text
	// in the colours that the terminal has
	_, err = lipgloss.Fprint(l.Out, ansi.SetModeSynchronizedOutput+text+
		ansi.ResetModeSynchronizedOutput)
	return err
}
