// Package nodetest is a house of fake nodes, for stories about several of them: lives of nodes in a
// synctest bubble, tied together as the module's root does it, on the reference model of the store.
//
// A [Node] is one life of a node: its door to the store, its membership and rounds (package
// scheduler), its clock and its dispatcher. What a package's stories are about it adds by the
// functions of [Config], as Own: firing its firer; what jobs need stands here ([Jobs]), because the
// stories of supervise and of worker both have it.
//
// The words are the same in all houses. A [House] starts nodes and kills them ([House.Start],
// [House.Kill]): a node that is killed reaches nothing and nobody any more, at once. A node is cut
// off from its store and restored by its door (package fault), which also fails calls, at all nodes
// with [House.Fail]; [House.CrashAt] lets a node die at a call. Time passes ([House.Pass],
// [House.Until], [House.Await]), and what must always hold is watched meanwhile (House.Watch). The
// log is kept ([story.Journal]).
//
// Tests of the packages of which a node is made, scheduler and dispatch, can't import this one
// unless they stand outside their package; they have the same doors and journals.
package nodetest
