// Package serving has the commands that run a node, and look after its store and its machine: rota
// serve, rota backup, rota restore and rota doctor.
//
// Begin with serve.go. work.go is what a node runs itself, as a worker does; backup.go copies a
// store on SQLite and makes one of the copy; doctor.go looks for what commonly goes wrong.
package serving
