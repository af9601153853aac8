// Package tools has the commands that measure rota and show it at work: rota bench, rota simulate
// and rota demo.
//
// Here are their flags and texts; what they do is in the packages bench, simulate and demo.
package tools
