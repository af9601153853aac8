package worker

import (
	"os"
	"path/filepath"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

const (
	// maxAfterText is the longest list of tasks with what they left that a variable of the
	// environment tells, and maxAfterNames the longest without: the system has a limit for each.
	maxAfterText  = 16 << 10
	maxAfterNames = 64 << 10
)

// waited is what the task has waited for before it began, as a JSON list; nil = it did not wait.
func waited(t *task.Handout) []byte {
	if len(t.After) == 0 {
		return nil
	}
	return wire.AppendPriors(nil, t.After)
}

// afterOf is what the task has waited for before it began, as text and as a file in dir; "" = it
// did not wait.
func afterOf(t *task.Handout, dir string) (text, file string, err error) {
	if len(t.After) == 0 {
		return "", "", nil
	}
	whole := waited(t)
	file = filepath.Join(dir, "after.json")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		return "", "", err
	}
	if len(whole) > maxAfterText {
		names := make([]task.Prior, len(t.After))
		for i, p := range t.After {
			p.LeftOut = p.LeftOut || len(p.Context)+len(p.Result) > 0
			p.Context, p.Result = nil, nil
			names[i] = p
		}
		whole = wire.AppendPriors(nil, names)
	}
	if len(whole) > maxAfterNames {
		whole = nil
	}
	return string(whole), file, nil
}
