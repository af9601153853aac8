// Package guard has a process beside one that runs commands for tasks and jobs: when that is
// killed, the guard kills what it leaves behind.
//
// Over starts it, as rota worker guard, which is Command. It is told of each process group by
// lines on its stdin, and acts when they end: watchGroups reads them. Become is what stands where
// a command is to run until the guard was told of it, if a shell will not do.
package guard
