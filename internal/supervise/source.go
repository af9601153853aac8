package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	stampEvery = 10 * time.Second // so often is looked whether a file changed
	// a supervisor that takes over reads again what was read longer ago than this
	sourceRests = time.Minute
	jobsAtOnce  = 10_000 // jobs per write
)

// source is how a supervisor stands with the source of its group.
type source struct {
	conf    task.Source // that is being read, or was
	busy    bool
	done    chan reading // of size 1
	read    bool         // one was, by this supervisor or not long ago
	at      time.Time    // when the last one began
	refresh int64        // the group's, then
	stamp   stamp        // of the file, as far as it is known
	looked  time.Time    // when it was looked at last
	pending *reading     // read, and not written down yet

	// ended is closed when a reader has ended that was given up before; nil = there is none. Until
	// then the same source is not read again, so that one whose readers hang has one of them.
	ended <-chan struct{}
}

// reading is what came of one.
type reading struct {
	conf    task.Source
	refresh int64 // the group's, when it began
	stamp   stamp
	same    bool // the file is as it was, and was not read
	jobs    []task.Job
	hash    string
	err     error
	// the reader was given up, and this is closed when it has ended; nil = it has
	ended <-chan struct{}
}

// readSource begins to read the group's source when it is time, and does what follows from what was
// read.
func (s *Supervisor) readSource(ctx context.Context, l *groupCache, now time.Time) error {
	l.mu.RLock()
	g := l.group
	l.mu.RUnlock()
	src := &s.source
	select {
	case got := <-src.done:
		src.busy, src.stamp, src.ended = false, got.stamp, got.ended
		if !got.same && reflect.DeepEqual(got.conf, g.Source) {
			// if it is another one by now it is read anew
			src.pending = &got
		}
	default:
	}
	if src.pending != nil && !reflect.DeepEqual(src.pending.conf, g.Source) {
		src.pending = nil // it could not be written down while it was the group's
	}
	if src.pending != nil {
		if err := s.take(ctx, l, g, src.pending, now); err != nil {
			return fmt.Errorf("take in source: %w", err)
		}
		src.pending = nil
	}
	if g.Source.Kind == task.SourceAPI && !src.hangs(src.conf) {
		src.conf, src.read = g.Source, true // the next one is read, also if it was before
	}
	if g.Source.Kind == task.SourceAPI || src.busy || src.hangs(g.Source) {
		return nil
	}
	switch due := src.due(&g, s.cache.read(now), now); {
	case due:
		src.conf, src.read, src.at, src.looked, src.refresh = g.Source, true, now, now, g.Refresh
		s.begin(ctx, g, nil)
	case g.Source.Kind == task.SourceFile && now.Sub(src.looked) >= stampEvery:
		src.looked = now
		s.begin(ctx, g, &src.stamp)
	}
	return nil
}

// begin reads the source beside the rounds, which must not wait for it; if before is given, only if
// the file has another stamp.
func (s *Supervisor) begin(ctx context.Context, g store.Group, before *stamp) {
	src := &s.source
	src.busy = true
	if before != nil {
		seen := *before // src.stamp changes
		before = &seen
	}
	s.work.Go(func() {
		got := s.conf.Sources.look(ctx, g.Source, before)
		got.conf, got.refresh = g.Source, g.Refresh
		src.done <- got
		signal(s.changed)
	})
}

// hangs tells whether a reader of that very source was given up and has not ended.
func (src *source) hangs(of task.Source) bool {
	if src.ended == nil || !reflect.DeepEqual(src.conf, of) {
		return false
	}
	select {
	case <-src.ended:
		return false
	default:
		return true
	}
}

// due tells whether the source is to be read now, whatever is known of it.
func (src *source) due(g *store.Group, storeNow int64, now time.Time) bool {
	if !src.read && g.Refresh == g.Read.Refresh && g.Read.Error == "" &&
		storeNow-g.Read.Time < min(sourceRests, g.Source.Every).Microseconds() {
		src.read, src.conf, src.at = true, g.Source, now
	}
	return !src.read || !reflect.DeepEqual(src.conf, g.Source) ||
		g.Refresh > max(g.Read.Refresh, src.refresh) || now.Sub(src.at) >= g.Source.Every
}

// take makes the group's jobs what was read. Whatever is wrong with it changes nothing but the note
// of it.
func (s *Supervisor) take(
	ctx context.Context, l *groupCache, g store.Group, got *reading, now time.Time,
) error {
	read := g.Read
	read.Time, read.Refresh = s.cache.read(now), got.refresh
	if got.err != nil {
		read.Error = cut(got.err.Error(), maxSourceError)
		return s.noted(ctx, g, read)
	}
	read.Good, read.Error = read.Time, ""
	put, remove := l.differs(got.jobs)
	if read.Hash == got.hash && len(put)+len(remove) == 0 {
		return s.noted(ctx, g, read)
	}
	read.Hash = got.hash
	whole := store.JobChange{
		Group: s.conf.Group, Put: put, Remove: remove, Claim: s.conf.Claim, Read: &read,
		From: &got.conf,
	}
	if err := s.change(ctx, whole); err != nil {
		return err
	}
	s.alarms.source(g.Read, read)
	return nil
}

// maxSourceError is how much of an error is kept, in bytes.
const maxSourceError = 1000

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:most]), nil)) + "…"
}

func (s *Supervisor) noted(ctx context.Context, g store.Group, read store.SourceRead) error {
	if err := s.conf.Store.NoteSource(ctx, g.Name, s.conf.Claim, read); err != nil {
		s.unresolved = true
		return err
	}
	s.alarms.source(g.Read, read)
	return nil
}

// change writes down how a list differs from the jobs that there are, in pieces; the last says that
// the source was read, so that a list of which only a part was written is read again.
func (s *Supervisor) change(ctx context.Context, whole store.JobChange) error {
	for {
		c, room := whole, jobsAtOnce
		c.Put = cutOff(&whole.Put, &room)
		c.Remove = cutOff(&whole.Remove, &room)
		last := len(whole.Put)+len(whole.Remove) == 0
		if !last {
			c.Read = nil
		}
		got, err := s.conf.Store.ChangeJobs(ctx, c)
		if err != nil {
			s.unresolved = true
			return err
		}
		s.log.Info("jobs changed", "added", got.Added, "removed", got.Removed, "kept", got.Kept)
		if last {
			break
		}
	}
	_, err := s.cache.Catch(ctx, s.conf.Group, true)
	return err
}

// differs is what a list adds or changes, and what it leaves out.
func (l *groupCache) differs(jobs []task.Job) (put []task.Job, remove []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	listed := make(map[string]bool, len(jobs))
	for _, j := range jobs {
		listed[j.Name] = true
		if old := l.jobs[j.Name]; old == nil || old.Load != j.Load ||
			!bytes.Equal(old.Spec, j.Spec) {
			put = append(put, j)
		}
	}
	for name := range l.jobs {
		if !listed[name] {
			remove = append(remove, name)
		}
	}
	slices.Sort(remove)
	return put, remove
}

// read is what time it is in the store.
func (b *ClusterCache) read(now time.Time) int64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.clock.read(now)
}

// errNothing: whoever means that there are no jobs says so.
var errNothing = errors.New(
	`it lists no jobs; an empty list is believed only when it says so: {"jobs":[]}`,
)
