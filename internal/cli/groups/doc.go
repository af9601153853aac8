// Package groups has the commands that look after groups of jobs: rota group.
//
// Begin with group.go: the list of commands and ls. set.go configures a group, jobs.go changes its
// jobs, show.go shows where they are and why, plan.go what would become of them if workers came or
// went, log.go what they logged.
package groups
