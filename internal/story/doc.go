// Package story is what all tests that tell stories have in common, however many parts of a node
// play in them: how [Often] a story is told and whether only on the [Whole], and a [Journal] of
// what the log said meanwhile, which the story can ask.
package story
