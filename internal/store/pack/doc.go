// Package pack puts many small facts into few rows: the tasks of a batch, and how they ended.
// Pure: no I/O, no clock.
//
// A row, its key and its log record cost a database several times what a hundred bytes cost. The
// numbers of a batch are therefore cut into packs of [Size], each from a multiple of it on, and a
// store keeps for each pack
//
//	pack   the tasks themselves: a bitmap of the numbers that are tasks, and a body (tasks.go)
//	mark   the outcomes done of first hand-outs: a bitmap, and a body (mark.go)
//
// All that is unusual (another outcome, a later hand-out, a context, a large result) keeps a row
// of its own in the table of steps: [Fits] tells. The outcome of a task's first hand-out stands
// either in a mark, with its bit set, or as a step, never in both. Where a newer step stands, too,
// after a replay or a removal, that step tells how the task stands.
//
// SQLite keeps both so. PostgreSQL keeps the tasks of a pack in arrays, which SQL can read, and
// marks as they are here.
//
// The body of a mark is only added to. That of a pack is written once; retention writes it again
// without the tasks that it deletes ([Thin]). A body that does not follow the rules is an error that
// says where ([ErrDamaged]), and never a panic.
package pack
