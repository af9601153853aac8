// Package queues has the commands that look after queues: rota queue, and below it rota queue key
// for single group keys.
//
// Begin with queue.go: the list of commands, ls and set. limits.go has the flags and texts of
// limits, keys.go what is said of group keys, show.go how a queue stands and what was done in it.
package queues
