package top

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/queues"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/top"
	"github.com/rotahq/rota/view"
)

// keysOf reads a queue and its group keys. Those of a queue that does not go by keys are not looked
// at: byKeys is false.
func (s *source) keysOf(
	ctx context.Context, queue string,
) (q client.Queue, keys view.QueueKeys, byKeys bool, err error) {
	q, err = s.client.Queue(ctx, queue)
	// of a queue that has limits of its own the keys say whether some of them have rules
	if err != nil || !q.ByKeys() && q.Limits == nil {
		return q, keys, false, err
	}
	keys, err = s.client.Keys(ctx, queue)
	return q, keys, q.ByKeys() || slices.ContainsFunc(keys.Items, ruled), err
}

// ruled tells whether something is said of a key.
func ruled(k view.QueueKey) bool { return k.Paused || k.Weight != 1 }

// keys are the group keys of a queue that have work, or of which something is said.
func (s *source) keys(ctx context.Context, queue string) (top.List, error) {
	_, keys, byKeys, err := s.keysOf(ctx, queue)
	if err != nil {
		return top.List{}, err
	}
	if !byKeys {
		return top.List{Note: "queue " + queue + " does not go by group keys: it neither limits " +
			"each key nor lets keys take turns, and no key is paused or weighs more than others " +
			"(rota queue set --key-max-running, --key-rate, --fair; rota queue key pause)"}, nil
	}
	l := top.List{Heads: []string{"KEY", "STATE", "#READY", "#RUNNING", "#WEIGHT", "PAUSED"}}
	if keys.Cut {
		l.Note = "more work than was looked at"
	}
	for i := range keys.Items {
		k := &keys.Items[i]
		l.Rows = append(l.Rows, top.Row{ID: k.Key, Cells: []top.Cell{
			text(k.Key), s.keyState(k), figure(k.Ready), figure(k.Running), figure(k.Weight),
			text(queues.PausedText(&k.KeyRule, s.Now())),
		}})
	}
	return l, nil
}

// keyState says whether tasks of a key may begin.
func (s *source) keyState(k *view.QueueKey) top.Cell {
	cell := top.Cell{Text: queues.KeyStateText(k, s.Now()), Tone: top.Busy}
	switch k.State {
	case view.KeyOpen:
		cell.Tone = top.Good
	case view.KeyStopped:
		cell.Tone = top.Bad
	}
	return cell
}

// openKey is what is known of a group key.
func (s *source) openKey(ctx context.Context, t top.Thing) (string, error) {
	q, keys, _, err := s.keysOf(ctx, t.Queue)
	if err != nil {
		return "", err
	}
	k := view.QueueKey{KeyRule: view.KeyRule{Key: t.ID, Weight: 1}, State: view.KeyOpen}
	for i := range keys.Items {
		if keys.Items[i].Key == t.ID {
			k = keys.Items[i]
		}
	}
	sheet := term.Sheet{Indent: 10}
	sheet.Line("queue", term.OneLine(t.Queue))
	sheet.Line("key", term.Bold(term.OneLine(k.Key)))
	sheet.Line("state", queues.KeyStateText(&k, s.Now()))
	sheet.Line("ready", term.Count(k.Ready))
	sheet.Line("running", term.Count(k.Running))
	sheet.Line("weight", fmt.Sprint(k.Weight))
	sheet.Line("paused", queues.PausedText(&k.KeyRule, s.Now()))
	sheet.Line("limits", term.OneLine(queues.LimitsText(&q)))
	if keys.Cut {
		sheet.Line("", term.Faint("There is more work than was looked at: numbers may be too small."))
	}
	return sheet.String(), nil
}

// actKey pauses a group key until it is resumed, or resumes it.
func (s *source) actKey(ctx context.Context, a top.Action) (string, error) {
	if a.Verb == top.Pause {
		_, err := s.client.PauseKey(ctx, a.Queue, a.ID, 0)
		return "", err
	}
	_, err := s.client.ResumeKey(ctx, a.Queue, a.ID)
	return "", err
}
