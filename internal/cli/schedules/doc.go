// Package schedules has the commands that look after schedules and calendars: rota schedule and
// rota calendar.
//
// Begin with schedule.go: the list of commands, ls and run, and how times are written. set.go
// creates and changes a schedule, show.go shows it or one of its runs, next.go says when it is due,
// past.go what came of its due times. import.go makes schedules of a crontab, which crontab.go
// reads. documents.go is what they print as JSON.
package schedules
