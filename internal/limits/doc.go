// Package limits says what may come from outside, and what holds where nothing is said: the largest
// and the smallest of everything, the checks of what programs and people submit and configure, and
// the defaults. It is pure. What is wrong is added to a *task.InvalidError, with its place.
package limits
