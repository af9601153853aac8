// Package workers has the commands that run a worker and look after workers: rota worker.
//
// Begin with worker.go, which runs one. show.go lists and shows workers, drain.go lets them give up
// their work, gone.go tells of one that no node knows any more.
package workers
