package worker

import (
	"context"
	"os"
	"time"
)

// Alive gives a sign that the job whose handler ctx belongs to gets on. A group may say how long a
// handler may give none (job_silence): then its replica is started elsewhere, and this one told to
// end. Each line of the job's log is such a sign, too. Elsewhere, and of a task, it does nothing.
// It costs next to nothing: call it as often as there is something to show for it.
func Alive(ctx context.Context) {
	if r, ok := ctx.Value(workKey{}).(*run); ok {
		r.sign(time.Now())
	}
}

// sign notes that the run's handler gave a sign.
func (r *run) sign(now time.Time) { r.alive.Store(now.UnixMilli()) }

// touchable lets a run's handler give signs by touching a file, until done is called.
func touchable(ctx context.Context, path string) (done func()) {
	r, ok := ctx.Value(workKey{}).(*run)
	if !ok {
		return func() {}
	}
	r.touch.Store(&path)
	return func() { r.touch.Store(nil) }
}

// lookForTouches takes in the files that handlers touched since the last look, if anybody wants to
// know.
func (w *Worker) lookForTouches() {
	w.mu.Lock()
	var looked []*run
	if w.signs {
		looked = append(looked, w.runs...)
	}
	w.mu.Unlock()
	for _, r := range looked {
		path := r.touch.Load()
		if path == nil {
			continue
		}
		if f, err := os.Stat(*path); err == nil && f.ModTime().UnixMilli() > r.alive.Load() {
			r.sign(f.ModTime())
		}
	}
}
