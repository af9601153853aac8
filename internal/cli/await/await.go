package await

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

const (
	atATime   = 16               // tasks that are waited for at a time
	poll      = 30 * time.Second // of one question, answered early when the task ends
	watchPoll = time.Second      // the same, when somebody sees how the task stands meanwhile
)

// pauses are the pauses while no server answers.
var pauses = task.Backoff{
	Initial: 200 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.5,
}

// Tasks waits for tasks to end. They are stored, so a server that is away for a while, as for a
// restart, is waited for as well.
type Tasks struct {
	Client *client.Client
	// Say tells a person, once each time, that the server is away and that it is back
	Say func(string)

	watched bool // somebody sees how a task stands meanwhile

	mu   sync.Mutex
	away bool
}

// end waits for the end of a task and tells seen how it stands until then.
func (w *Tasks) end(ctx context.Context, id task.ID, seen func(task.View)) (task.View, error) {
	asked := poll
	if w.watched {
		asked = watchPoll
	}
	for failures := 0; ; {
		began := time.Now()
		view, err := w.Client.Task(ctx, id, asked)
		switch {
		case err == nil && view.State.Final():
			w.answered(nil)
			return view, nil
		case err == nil:
			w.answered(nil)
			seen(view)
			failures = 0
			// not at once again: a proxy may answer without waiting for the end
			if err := pause.For(ctx, app.Poll-time.Since(began)); err != nil {
				return view, err
			}
			continue
		case ctx.Err() != nil || !app.Passes(err):
			return view, err
		}
		w.answered(err)
		failures++
		if err := pause.For(ctx, pauses.Delay(failures, rand.Uint64())); err != nil {
			return view, err
		}
	}
}

// answered says to a person that the server is away, and why, or that it is back.
func (w *Tasks) answered(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.away:
		w.Say("the server is back")
	case err != nil && !w.away:
		w.Say(fmt.Sprintf("the server is away; waiting for it (%s)", term.OneLine(err.Error())))
	}
	w.away = err != nil
}

// Ended is how the wait for one task ended.
type Ended struct {
	ID   task.ID
	View task.View
	Err  error // why nobody knows how it ended
}

// All waits for tasks, some at a time in their order, and tells f of each that has ended, one after
// the other. It returns when all have, or when ctx ends.
func (w *Tasks) All(ctx context.Context, ids []task.ID, f func(Ended)) {
	next, ends := make(chan task.ID), make(chan Ended)
	var lanes sync.WaitGroup
	for range min(atATime, len(ids)) {
		lanes.Go(func() {
			for id := range next {
				view, err := w.end(ctx, id, func(task.View) {})
				ends <- Ended{id, view, err}
			}
		})
	}
	lanes.Go(func() {
		defer close(next)
		for _, id := range ids {
			select {
			case next <- id:
			case <-ctx.Done():
				return
			}
		}
	})
	go func() {
		lanes.Wait()
		close(ends)
	}()
	for e := range ends {
		f(e)
	}
}

// Verdict is the error of a task that ended without being done.
func Verdict(v task.View) error {
	switch v.State {
	case task.Done:
		return nil
	case task.Cancelled:
		return fmt.Errorf("task %s was cancelled", v.ID)
	case task.Expired:
		return fmt.Errorf("task %s has expired: it was not begun in time", v.ID)
	}
	why := "no reason given"
	if len(v.Steps) > 0 {
		last := v.Steps[len(v.Steps)-1]
		why = last.Kind.String()
		if last.Error != "" {
			why = term.OneLine(last.Error)
		}
	}
	return fmt.Errorf(
		"task %s is dead after attempt %d: %s (see `rota task show %s`, `rota task logs %s`)", v.ID,
		v.Attempt, why, v.ID, v.ID,
	)
}

// Result prints the result of the task once it ended. Its id is told before, apart from the result:
// whoever waits may have to stop waiting.
func Result(ctx context.Context, a *app.App, c *client.Client, id task.ID) error {
	progress := a.Progress()
	say := func(text string) {
		progress.Clear()
		fmt.Fprintln(a.Err, text)
	}
	say(fmt.Sprintf("task %s", id))
	w := Tasks{Client: c, Say: say, watched: progress.Width > 0}
	view, err := w.end(ctx, id, func(v task.View) {
		progress.Note(fmt.Sprintf("%s, attempt %d %s", term.Painted(v.State), v.Attempt,
			term.Faint(taskview.ProgressText(v))))
	})
	progress.Clear()
	if ctx.Err() != nil {
		fmt.Fprintf(a.Err, "the task goes on: see `rota task show %s`\n", id)
	}
	if err != nil {
		return err
	}
	if a.JSON() {
		err = a.PrintJSON(taskview.Of(view))
	} else if len(view.Result) > 0 {
		text := string(view.Result)
		if _, ok := term.Terminal(a.Out); ok { // a worker wrote it
			text = strings.Join(term.Lines(text), "\n")
		}
		_, err = fmt.Fprintln(a.Out, text)
	}
	return errors.Join(err, Verdict(view))
}
