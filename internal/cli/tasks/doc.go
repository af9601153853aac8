// Package tasks has the commands that submit tasks, and show and steer them: rota submit, rota task
// and rota signal.
//
// Begin with task.go, which has the list of what rota task can do, and show.go. filter.go has the
// flags by which many of these commands select tasks. submit.go submits one task, lines.go one for
// each line of stdin and after.go several that wait for each other. act.go is what cancel, retry,
// edit and rm have in common: named tasks, or all that a filter selects. tree.go, children.go and
// contexts.go show what hangs below a task and what its stages were handed; difference.go compares
// two texts.
package tasks
