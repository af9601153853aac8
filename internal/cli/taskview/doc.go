// Package taskview is a task as the command line writes it in JSON, with the fields of the API.
//
// Of is a task whole, as rota task show and rota submit --wait print it; Row is one of a list,
// without context, result and steps.
package taskview
