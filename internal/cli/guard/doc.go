// Package guard has a process beside one that runs commands for tasks and jobs: when that is
// killed, the guard kills what it leaves behind.
//
// Start starts it, as rota worker guard, which is Command. It is told of each process group by
// lines on its stdin, and acts when they end: watchGroups reads them.
package guard
