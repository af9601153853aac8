package model

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Keep implements [contract.Texts].
func (m *Model) Keep(ctx context.Context, v []byte) (store.Value, error) {
	if len(v) <= store.InlineLimit {
		return bytes.Clone(v), nil
	}
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	name := fmt.Sprintf("blob-%d", m.number())
	m.blobs[name] = bytes.Clone(v)
	return store.Ref(name), nil
}

// Value implements [contract.Texts].
func (m *Model) Value(ctx context.Context, v store.Value) ([]byte, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.resolve(v)
}

func (m *Model) resolve(v store.Value) ([]byte, error) {
	name, ok := v.Blob()
	if !ok {
		return bytes.Clone(v), nil
	}
	text, ok := m.blobs[name]
	if !ok {
		return nil, fmt.Errorf("blob %q: %w", name, fs.ErrNotExist)
	}
	return bytes.Clone(text), nil
}

// taskLog is the log of one task or job: its first lines, and its newest ones, which begin at
// position from.
type taskLog struct {
	head, tail           []task.LogLine
	headBytes, tailBytes int
	from                 int64
}

// logLimit is how many bytes of text a task's log keeps: the first half, and the newest half.
const logLimit = 1 << 20

// AppendLog implements [contract.Texts].
func (m *Model) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if f := m.tasks[id]; f == nil || f.removed() {
		return fmt.Errorf("task %s: %w", id, store.ErrNotFound)
	}
	l := m.logs[id]
	if l == nil {
		l = &taskLog{}
		m.logs[id] = l
	}
	l.append(lines)
	return nil
}

// append adds lines; past the limit the middle is dropped first.
func (l *taskLog) append(lines []task.LogLine) {
	for _, line := range lines {
		if len(l.tail) == 0 && l.headBytes+size(line) <= logLimit/2 {
			l.head = append(l.head, line)
			l.headBytes += size(line)
			l.from++
			continue
		}
		l.tail = append(l.tail, line)
		l.tailBytes += size(line)
		for l.tailBytes > logLimit/2 {
			l.tailBytes -= size(l.tail[0])
			l.tail = l.tail[1:]
			l.from++
		}
	}
}

func size(l task.LogLine) int { return max(len(l.Stream)+len(l.Text), store.LogLineMin) }

// Log implements [contract.Texts].
func (m *Model) Log(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error) {
	if _, err := m.begin(ctx); err != nil {
		return store.LogPage{}, err
	}
	defer m.mu.Unlock()
	if f := m.tasks[id]; f == nil || f.removed() {
		return store.LogPage{}, fmt.Errorf("task %s: %w", id, store.ErrNotFound)
	}
	l := m.logs[id]
	if l == nil {
		l = &taskLog{}
	}
	return l.page(from, limit), nil
}

// page reads lines from a position on.
func (l *taskLog) page(from int64, limit int) store.LogPage {
	page := store.LogPage{Next: from}
	at := func(pos int64, line task.LogLine) {
		if pos >= from && len(page.Lines) < limit {
			page.Lines = append(page.Lines, line)
			page.Next = pos + 1
		}
	}
	for i, line := range l.head {
		at(int64(i), line)
	}
	for i, line := range l.tail {
		at(l.from+int64(i), line)
	}
	return page
}
