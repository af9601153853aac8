// Package await waits for tasks to end, as rota submit --wait and rota schedule run --wait do.
//
// Result waits for one task and prints its result; Tasks waits for many, some at a time. Tasks are
// stored: a server that is away for a while, as for a restart, is waited for as well, and who stops
// waiting stops no task.
package await
