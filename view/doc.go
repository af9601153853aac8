// Package view has the types in which Rota answers questions about a cluster: what the REST API
// writes, and what package client reads and hands on.
//
// # Where a type stands
//
// A concept that workers and rules use too has its type in package task, and no other is made of
// it. What is only ever looked at, as the cluster, its nodes and the keys that they look after,
// stands here. Its type carries the JSON names and, as doc tags, what the API's document says of
// its fields.
//
// Tasks, queues, workers, schedules, groups, jobs and assignments still have types of their own in
// package client; each comes here, or gets its tags in package task, in its turn. The command line
// prints these types with -o json where its documents are the API's byte for byte; for events,
// notifiers and what came of due times it has documents of its own.
//
// # Times
//
// Every time is a [Time]: text by RFC 3339 in UTC with milliseconds, and null when there is none.
// A [Duration] is text as Go writes it.
package view
